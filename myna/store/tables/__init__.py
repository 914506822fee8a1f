"""All rows of a database, for backup, restore and move."""
