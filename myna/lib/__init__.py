"""What any part may use: no part of the service is imported here."""
