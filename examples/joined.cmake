# Builds all of `examples` as one program, each in a namespace of its own; `joined_examples SUBJECT/NN_name` runs one.
# What many of them include and call is compiled once a subject, not once an example.

add_program(joined_examples kept ${examples})  # kept: those whose libraries are here
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kept})
set(includes "")
set(subjects "")
set(declarations "")
set(calls "")
foreach(example IN LISTS kept)
  file(RELATIVE_PATH name ${CMAKE_CURRENT_SOURCE_DIR} ${example})
  string(REGEX REPLACE "\\.cpp$" "" name ${name})
  string(REPLACE "/" "_" space ${name})
  get_filename_component(subject ${name} DIRECTORY)
  get_filename_component(folder ${example} DIRECTORY)

  file(READ ${example} text)
  string(REGEX REPLACE "\nint main\\(\\)" "\nint run(int, char**)" text "${text}")
  string(REPLACE "\nint main(" "\nint run(" text "${text}")
  string(REGEX REPLACE "\n}\n(// [^\n]*\n)?\n// It prints:" "\n  return 0;  // as at the end of any main\n}\n\n" text "${text}")
  string(REGEX REPLACE "\n#include \"" "\n#include \"${folder}/" text "${text}")
  string(REGEX MATCHALL "#include [^\n]*" lines "${text}")

  list(APPEND includes ${lines})
  list(APPEND subjects ${subject})
  string(APPEND text_of_${subject} "namespace ${space} {\n#line 1 \"${example}\"\n${text}\n}\n")
  string(APPEND declarations "namespace ${space} { int run(int, char**); }\n")
  string(APPEND calls "  if (name == \"${name}\") return ${space}::run(count - 1, words + 1);\n")
  test_example(${example} $<TARGET_FILE:joined_examples> ${name})
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
list(REMOVE_DUPLICATES subjects)
set(text_of_main "#include <string_view>
${declarations}
int main(int count, char** words) {
  std::string_view const name = count > 1 ? words[1] : \"\";
${calls}  return 2;
}
")
if(kept)
  set(joined "")
  foreach(subject IN LISTS subjects ITEMS main)
    set(file ${CMAKE_CURRENT_BINARY_DIR}/joined/${subject}.cpp)
    if(NOT subject STREQUAL "main")
      string(PREPEND text_of_${subject} "${includes}\n")
    endif()
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_of_${subject}}" @ONLY)
    list(APPEND joined ${file})
  endforeach()
  set_property(TARGET joined_examples PROPERTY SOURCES ${joined})
  target_compile_options(joined_examples PRIVATE $<$<CONFIG:Release>:-O0>)
endif()
