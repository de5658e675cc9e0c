# The fat binaries' compression; static, so that no program meets a second libzstd.
LINK_device := -l:libzstd.a
