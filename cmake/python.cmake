# VERBATIM_PYTHON: the interpreter itself. What is found first may be a script that looks for the right one at each start,
# and tests start hundreds.

find_package(Python3 COMPONENTS Interpreter REQUIRED)
if(NOT VERBATIM_PYTHON)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import sys; print(sys.executable)"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(VERBATIM_PYTHON ${found} CACHE FILEPATH "The Python interpreter that tests run in")
endif()
