# Tests in Python: against the whole program, or against the source itself.

include(python)

# verbatim_python_test(end_to_end/test_x.py LABELS e2e [TIMEOUT 120] [PROGRAM])
# Every method `test_...` of the file's one TestCase becomes one ctest case, named like those of C++:
# folder.Class.method. PROGRAM: the test runs the program that this build makes, so it is no unit test: the sanitizers'
# stages may build test programs alone. Exit code 77 is a skip.
function(verbatim_python_test source)
  cmake_parse_arguments(arg "PROGRAM" "TIMEOUT" "LABELS" ${ARGN})
  if(arg_PROGRAM AND arg_LABELS MATCHES "unit|integration")
    message(FATAL_ERROR "${source} runs the program: its label is e2e or fault, not ${arg_LABELS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  set(file ${PROJECT_SOURCE_DIR}/tests/${source})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  get_filename_component(folder ${source} DIRECTORY)
  file(STRINGS ${file} lines REGEX "^class .*Test(Case)?\\)|^    def test_")
  set(class "")
  foreach(line IN LISTS lines)
    if(line MATCHES "^class ([A-Za-z0-9_]+)")
      set(class ${CMAKE_MATCH_1})
    elseif(line MATCHES "def (test_[a-z0-9_]+)")
      set(name ${folder}.${class}.${CMAKE_MATCH_1})
      add_test(NAME ${name} COMMAND ${VERBATIM_PYTHON} -B ${file} ${class}.${CMAKE_MATCH_1})
      set_tests_properties(${name} PROPERTIES
        LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} SKIP_RETURN_CODE 77)
      if(arg_PROGRAM)
        set_tests_properties(${name} PROPERTIES ENVIRONMENT "VERBATIM=${PROJECT_BINARY_DIR}/cli/verbatim")
      endif()
    endif()
  endforeach()
endfunction()
