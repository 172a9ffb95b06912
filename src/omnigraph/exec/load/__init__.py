"""Files, records and tables -> typed rows with their origins, ready to be written."""
