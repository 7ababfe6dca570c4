#include "kernels/backend.hpp"

#include <cpuid.h>
#include <xmmintrin.h>

#include <string>

namespace verbatim::kernels {

namespace {

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040, kRounding = 0x6000;

bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

bool supported(Backend backend) {
  // The compiler's own CPUID test also asks the operating system whether it saves the wide registers.
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  switch (backend) {
    case Backend::scalar:
      return true;
    case Backend::avx2:
      return avx2;
    case Backend::avx512:
      return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  }
  return false;
}

std::vector<Backend> supported_backends() {
  std::vector<Backend> found;
  for (const Backend backend : {Backend::scalar, Backend::avx2, Backend::avx512}) {
    if (supported(backend)) found.push_back(backend);
  }
  return found;
}

Backend best_backend() { return supported_backends().back(); }

std::string_view name(Backend backend) {
  switch (backend) {
    case Backend::scalar:
      return "scalar";
    case Backend::avx2:
      return "avx2";
    case Backend::avx512:
      return "avx512";
  }
  return "";
}

Result<Backend> parse_backend(std::string_view text) {
  if (text == "auto") return best_backend();
  for (const Backend backend : {Backend::scalar, Backend::avx2, Backend::avx512}) {
    if (text != name(backend)) continue;
    if (supported(backend)) return backend;
    return Error{Errc::unsupported, "this processor cannot run " + std::string(text), "backend",
                 "use auto"};
  }
  if (text == "cuda") {
    return Error{Errc::unsupported, "cuda is no backend of the processor", "backend",
                 "use auto: the bits are the same"};
  }
  return Error{Errc::invalid_input, "no backend is named '" + std::string(text) + "'", "backend",
               "use scalar, avx2, avx512 or auto"};
}

bool floating_point_is_exact() {
  return (_mm_getcsr() & (kFlushToZero | kDenormalsAreZero | kRounding)) == 0;
}

void make_floating_point_exact() {
  _mm_setcsr(_mm_getcsr() & ~(kFlushToZero | kDenormalsAreZero | kRounding));
}

}  // namespace verbatim::kernels
