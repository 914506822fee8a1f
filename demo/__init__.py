"""`make demo`: starts Myna, calls it as a client does, then keeps it running."""
