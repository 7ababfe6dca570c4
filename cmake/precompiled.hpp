#pragma once
// For the sanitizers' builds alone (verbatim.cmake): what many files include and takes long to read.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "schema/json.hpp"
