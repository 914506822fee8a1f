"""The benchmark: what it computes, fills and draws; never how fast anything is."""
