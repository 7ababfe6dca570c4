// Runs the operators' tests on the GPU and reports them as one JSON object. Exit code 0: all passed; 1: not; 77: no device.

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <string>

namespace {

int run(const testing::Registered& test, std::size_t parameter, std::string& failures) {
  testing::running() = {};
  testing::parameter() = parameter;
  const std::unique_ptr<testing::Test> object(test.make());
  object->run();
  const testing::Running& result = testing::running();
  if (result.failed || result.skipped) {
    std::fprintf(stderr, "%s %s.%s/%zu\n%s", result.failed ? "FAILED" : "SKIPPED",
                 test.suite.c_str(), test.name.c_str(), parameter, result.text.c_str());
  }
  if (!result.failed) return 0;
  failures += (failures.empty() ? "\"" : ", \"") + test.suite + "." + test.name + "/" +
              std::to_string(parameter) + "\"";
  return 1;
}

}  // namespace

int main() {
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices);
      error != cudaSuccess || devices == 0) {
    std::fprintf(stderr, "SKIPPED: no CUDA device: %s\n", cudaGetErrorString(error));
    return 77;
  }
  int tests = 0, failed = 0;
  std::string failures;
  for (const testing::Registered& test : testing::registered()) {
    if (!test.has_parameters) {
      ++tests;
      failed += run(test, 0, failures);
      continue;
    }
    for (const std::size_t parameter : testing::parameters()[test.suite]) {
      ++tests;
      failed += run(test, parameter, failures);
    }
  }
  std::printf("{\"tests\": %d, \"failed\": %d, \"failures\": [%s]}\n", tests, failed,
              failures.c_str());
  return failed == 0 && tests > 0 ? 0 : 1;
}
