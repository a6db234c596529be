"""Secondary indexes, which map values of columns to the record keys of rows that may have them."""
