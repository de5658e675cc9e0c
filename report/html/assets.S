// The page's parts as they lie in this folder, each as bytes and their number. Position-independent and invisible outside of the object.
    .section .rodata
    .macro begin name
    .globl devtrace_\name, devtrace_\name\()_size
    .hidden devtrace_\name, devtrace_\name\()_size
    .balign 8
devtrace_\name:
    .endm
    .macro end name
1:
    .balign 8
devtrace_\name\()_size:
    .quad 1b - devtrace_\name
    .endm
    .macro script name
    .incbin "report/html/script/\name\().js"
    .endm

    begin page
    .incbin "report/html/report.html"
    end page

    begin style
    .incbin "report/html/style.css"
    end style

// One scope for all of them, and not the window's, where `name`, `location` and `status` are taken. What a file uses when the page is drawn
// may stand in a later one.
    begin script
    .ascii "\"use strict\";\n{\n"
    script text
    script words
    script records
    script dom
    script answer
    script operands
    script stacks
    script time_line
    script traffic
    script placement
    script memory
    script facts
    script finding
    script list
    script navigation
    script buttons
    script start
    .ascii "}\n"
    end script

    .section .note.GNU-stack, "", @progbits
