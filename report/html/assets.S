// The page's parts as they lie in this folder, each as bytes and their number. Position-independent and invisible outside of the object.
    .section .rodata
    .macro asset name, file
    .globl devtrace_\name, devtrace_\name\()_size
    .hidden devtrace_\name, devtrace_\name\()_size
    .balign 8
devtrace_\name:
    .incbin "\file"
1:
    .balign 8
devtrace_\name\()_size:
    .quad 1b - devtrace_\name
    .endm

    asset page, "report/html/report.html"
    asset style, "report/html/report.css"
    asset script, "report/html/report.js"

    .section .note.GNU-stack, "", @progbits
