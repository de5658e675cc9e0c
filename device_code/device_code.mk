# The fat binaries' compression; static, so that no program meets a second libzstd.
LINK_device_code := -l:libzstd.a
