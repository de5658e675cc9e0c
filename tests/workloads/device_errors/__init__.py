"""Every error that PyTorch and its libraries raise because of where something lies: messages, programs, reasons."""
