"""What the command does by Python's own libraries: `pip install devtrace[fleet]`. Started by the command, and no interface."""
