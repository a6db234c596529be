"""What callers give: arguments, keys and rows, checked and converted."""
