#include "kernels/profile.hpp"

#include <string>

namespace verbatim::kernels {

std::string_view name(Profile profile) {
  switch (profile) {
    case Profile::f32_k256:
      return "f32-k256/1";
    case Profile::mma_hopper:
      return "mma-hopper/1";
  }
  return "";
}

Result<Profile> parse_profile(std::string_view text) {
  for (const Profile profile : {Profile::f32_k256, Profile::mma_hopper}) {
    if (text == name(profile)) return profile;
  }
  return Error{Errc::invalid_input, "no numerics profile is named '" + std::string(text) + "'",
               "profile", "use f32-k256/1 or mma-hopper/1"};
}

}  // namespace verbatim::kernels
