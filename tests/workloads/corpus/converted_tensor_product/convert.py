from network import Network


def to_fast(source, device="cpu"):
    """The same network with fused tensor products."""
    target = Network(**source.config, fused=True).to(device)
    target.load_state_dict(source.state_dict())
    return target.eval()
