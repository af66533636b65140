# Runs PROGRAM and compares what it prints with the comment that ends SOURCE, below `// It prints:`.

file(READ ${SOURCE} source)
string(FIND "${source}" "\n// It prints:\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${SOURCE} does not end with a comment that begins with `// It prints:`")
endif()
string(SUBSTRING "${source}" ${at} -1 promised)
string(REGEX REPLACE "^\n// It prints:\n(//\n)?" "" promised "${promised}")
string(REGEX REPLACE "(^|\n)//(   )?" "\\1" promised "${promised}")

execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE code)
if(NOT code EQUAL 0 OR NOT printed STREQUAL promised)
  message(FATAL_ERROR "exit code ${code}; it prints\n${printed}\nand promises\n${promised}")
endif()
