"""The record index: sorted runs that map record keys to the file groups that may hold them."""
