"""No secret in a log: replaced before it is written, and taken out where one was written already."""
