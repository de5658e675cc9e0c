# interpose
