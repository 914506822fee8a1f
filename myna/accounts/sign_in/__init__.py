"""How account holders and operators sign in to the back office."""
