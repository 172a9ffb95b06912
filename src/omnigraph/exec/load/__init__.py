"""Files, records and tables in -> typed rows with their places, ready to be written."""
