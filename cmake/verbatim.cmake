# What every target of this project has in common, and the functions that make targets.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(VERBATIM_CCACHE ccache)
if(VERBATIM_CCACHE)
  # Paths relative to the checkout, so that a second checkout finds what the first one compiled. DEPEND: what is not in
  # the cache is not preprocessed once more for it. SLOPPINESS: as precompiled headers need it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${VERBATIM_CCACHE})
endif()

add_library(verbatim_flags INTERFACE)
target_include_directories(verbatim_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(verbatim_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror>
  # g++ 12 sees overlapping copies in `"text" + std::string` at -O3 (GCC bug 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
  # clang counts the sign of an integer to -Wconversion, g++ does not; the two shall ask the same.
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-sign-conversion>
  # Exact floating point is part of the product: no contraction into FMA, no -ffast-math, anywhere.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
target_compile_definitions(verbatim_flags INTERFACE
  VERBATIM_VERSION="${PROJECT_VERSION}"
  BOOST_ASIO_NO_DEPRECATED
  BOOST_ASIO_SEPARATE_COMPILATION
  BOOST_BEAST_SEPARATE_COMPILATION)
# For a file in which g++ 12 warns that a JSON text, which it has just seen made, is compared as if it were binary data.
set(VERBATIM_JSON_COMPARED $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds>)
find_package(Threads REQUIRED)
target_link_libraries(verbatim_flags INTERFACE Threads::Threads)

find_program(VERBATIM_MOLD mold)
if(VERBATIM_MOLD)
  target_link_options(verbatim_flags INTERFACE -fuse-ld=mold)
endif()

# A sanitizer's build is for the tests alone: it compiles at Debug's -O0, in half the time of -O1 (measured, clang 14).
# Only the arithmetic of the engine and the reading of JSON are too slow so; their components are OPTIMISED.
if(VERBATIM_SANITIZE)
  target_compile_options(verbatim_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-omit-frame-pointer>)
endif()

if(VERBATIM_SANITIZE MATCHES "^(address|fuzzer)$")
  target_compile_options(verbatim_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined -fno-sanitize-recover=all>
    # clang 14 cannot put what this check wants to know of a function before a coroutine (its bug 49689).
    $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-fno-sanitize=function>)
  target_link_options(verbatim_flags INTERFACE -fsanitize=address,undefined)
  if(VERBATIM_SANITIZE STREQUAL "fuzzer")
    # Counts the branches taken, for libFuzzer, which tests/fuzz links.
    target_compile_options(verbatim_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>)
  endif()
elseif(VERBATIM_SANITIZE STREQUAL "thread")
  target_compile_options(verbatim_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread>
    # g++ 12 warns that TSan does not model atomic_thread_fence; Asio uses none that matters here.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-tsan>)
  target_link_options(verbatim_flags INTERFACE -fsanitize=thread)
elseif(VERBATIM_SANITIZE)
  message(FATAL_ERROR "VERBATIM_SANITIZE is '${VERBATIM_SANITIZE}': use address, thread, fuzzer or nothing")
endif()

# CUDA: the compiler may be off PATH, in the toolkit's own folder.
set(VERBATIM_HAVE_CUDA OFF)
if(NOT VERBATIM_CUDA STREQUAL "OFF")
  find_program(VERBATIM_NVCC nvcc HINTS /usr/local/cuda/bin $ENV{CUDA_HOME}/bin)
  if(VERBATIM_NVCC)
    set(CMAKE_CUDA_COMPILER ${VERBATIM_NVCC})
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual)
    endif()
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc 12 and later speak C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    set(VERBATIM_HAVE_CUDA ON)
  elseif(VERBATIM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "VERBATIM_CUDA=ON, but no nvcc on PATH or in /usr/local/cuda/bin")
  else()
    message(STATUS "CUDA kernels are not built: no nvcc on PATH or in /usr/local/cuda/bin")
  endif()
endif()

# The headers that take longest, read once for all files of a sanitizer's build. Not in a release: there every file is
# compiled with no more than it includes, and so shows that it includes what it needs.
# verbatim_precompile(TARGET KIND): plain; optimised, for components that are; network, for those that use Asio.
if(VERBATIM_SANITIZE)
  find_package(Boost 1.81 REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(GTest REQUIRED)
  file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
  foreach(kind plain optimised network)
    add_library(verbatim_precompiled_${kind} OBJECT ${PROJECT_BINARY_DIR}/precompiled.cpp)
    target_link_libraries(verbatim_precompiled_${kind} PRIVATE
      verbatim_flags Boost::headers nlohmann_json::nlohmann_json GTest::gtest)
    target_precompile_headers(verbatim_precompiled_${kind} PRIVATE
      <gtest/gtest.h> <boost/system/result.hpp> <algorithm> <array> <chrono> <cstdint> <filesystem> <functional> <map>
      <memory> <optional> <span> <sstream> <string> <string_view> <variant> <vector>
      ${PROJECT_SOURCE_DIR}/schema/json.hpp)
  endforeach()
  target_compile_options(verbatim_precompiled_optimised PRIVATE -O1)
  target_precompile_headers(verbatim_precompiled_network PRIVATE <boost/asio.hpp> <boost/beast.hpp>)
endif()
function(verbatim_precompile target kind)
  if(VERBATIM_SANITIZE)
    target_precompile_headers(${target} REUSE_FROM verbatim_precompiled_${kind})
  endif()
endfunction()

# verbatim_component(audit [OPTIMISED] SOURCES log.cpp ... USES verbatim::schema SQLite::SQLite3)
# Makes the library verbatim::audit. USES names components and packages; each becomes public. OPTIMISED asks for -O1
# under a sanitizer too.
function(verbatim_component name)
  cmake_parse_arguments(arg "OPTIMISED" "" "SOURCES;USES" ${ARGN})
  add_library(verbatim_${name} STATIC ${arg_SOURCES})
  add_library(verbatim::${name} ALIAS verbatim_${name})
  target_link_libraries(verbatim_${name} PUBLIC verbatim_flags ${arg_USES})
  if(VERBATIM_SANITIZE AND arg_OPTIMISED)
    target_compile_options(verbatim_${name} PRIVATE -O1)
    verbatim_precompile(verbatim_${name} optimised)
  elseif(name STREQUAL "gateway")
    verbatim_precompile(verbatim_${name} network)
  else()
    verbatim_precompile(verbatim_${name} plain)
  endif()
endfunction()

# verbatim_test(audit/log_test.cpp USES verbatim::audit [LABELS unit] [SOURCES more.cpp] [TIMEOUT 60] [THREADS])
# Makes one test program; every TEST in it becomes one ctest case. The label is unit unless given. THREADS: what it tests
# runs on more than one thread, and is what ThreadSanitizer watches.
# Two targets build many: test_programs all, threaded_test_programs those with THREADS.
add_custom_target(test_programs)
add_custom_target(threaded_test_programs)
function(verbatim_test source)
  cmake_parse_arguments(arg "THREADS" "TIMEOUT" "USES;LABELS;SOURCES" ${ARGN})
  get_filename_component(folder ${source} DIRECTORY)
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE "/" "_" target "${folder}_${name}")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${target} ${PROJECT_SOURCE_DIR}/tests/${source} ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE verbatim_flags ${arg_USES} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${target} PRIVATE
    VERBATIM_SOURCE_DIR="${PROJECT_SOURCE_DIR}" VERBATIM_BINARY_DIR="${PROJECT_BINARY_DIR}")
  add_dependencies(test_programs ${target})
  if(arg_THREADS)
    add_dependencies(threaded_test_programs ${target})
  endif()
  if(folder STREQUAL "gateway")
    verbatim_precompile(${target} network)
  else()
    verbatim_precompile(${target} plain)
  endif()
  if(NOT VERBATIM_SANITIZE)
    # A test's own code need not be fast, and there is much of it.
    target_compile_options(${target} PRIVATE -O1)
  endif()
  gtest_discover_tests(${target} TEST_PREFIX "${folder}." DISCOVERY_MODE PRE_TEST
    PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()

# verbatim_embed_text(verbatim_audit sql/0001_log.sql kMigration0001 verbatim::audit)
# Makes <kMigration0001.hpp> with `inline constexpr std::string_view kMigration0001`.
function(verbatim_embed_text target file symbol namespace)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/embedded/${symbol}.hpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DOUT=${out}
            -DSYMBOL=${symbol} -DNAMESPACE=${namespace} -P ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake)
  target_sources(${target} PRIVATE ${out})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/embedded)
endfunction()
