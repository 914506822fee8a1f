"""The database and the stored files: all SQL, drivers, migrations, audio and samples."""
