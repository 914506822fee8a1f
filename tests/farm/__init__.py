"""The protocol of compute nodes, tested request by request against a service process."""
