"""What pip installs is a command and libraries; `python -m devtrace` starts the command."""
