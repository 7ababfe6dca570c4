#pragma once
// As much of GoogleTest as the tests of the kernels use, for a machine without it. See ../../CMakeLists.txt.

#include <cstddef>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace testing {

/// The running test.
struct Running {
  bool failed = false, skipped = false;
  std::string text;
};
inline Running& running() {
  static Running only;
  return only;
}

class Message {
 public:
  template <class T>
  Message& operator<<(const T& value) {
    out_ << value;
    return *this;
  }
  Message& operator<<(std::ostream& (*manipulator)(std::ostream&)) {
    out_ << manipulator;
    return *this;
  }
  Message& operator<<(std::ios_base& (*manipulator)(std::ios_base&)) {
    out_ << manipulator;
    return *this;
  }
  [[nodiscard]] std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
};

class AssertionResult {
 public:
  explicit AssertionResult(bool passed) : passed_(passed) {}
  template <class T>
  AssertionResult& operator<<(const T& value) {
    std::ostringstream out;
    out.copyfmt(format_);
    out << value;
    format_.copyfmt(out);
    text_ += out.str();
    return *this;
  }
  AssertionResult& operator<<(std::ios_base& (*manipulator)(std::ios_base&)) {
    format_ << manipulator;
    return *this;
  }
  AssertionResult(const AssertionResult& other) : passed_(other.passed_), text_(other.text_) {}
  explicit operator bool() const { return passed_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  static AssertionResult of(bool condition) { return AssertionResult(condition); }
  static AssertionResult of(const AssertionResult& result) { return result; }

 private:
  bool passed_;
  std::string text_;
  std::ostringstream format_;
};
inline AssertionResult AssertionSuccess() { return AssertionResult(true); }
inline AssertionResult AssertionFailure() { return AssertionResult(false); }

/// `Report(...) = Message() << "text"`, so that a test adds its text behind the macro.
class Report {
 public:
  Report(const char* file, int line, std::string what, bool skips = false)
      : what_(std::string(file) + ":" + std::to_string(line) + ": " + std::move(what)),
        skips_(skips) {}
  void operator=(const Message& message) const {
    (skips_ ? running().skipped : running().failed) = true;
    running().text += "    " + what_ + " " + message.text() + "\n";
  }

 private:
  std::string what_;
  bool skips_;
};

class Test {
 public:
  virtual ~Test() = default;
  void run() {
    SetUp();
    if (!running().skipped && !running().failed) TestBody();
    TearDown();
  }

 protected:
  virtual void SetUp() {}
  virtual void TearDown() {}
  virtual void TestBody() = 0;
};

/// Parameters are numbers: more is not used here.
inline std::size_t& parameter() {
  static std::size_t value = 0;
  return value;
}
template <class T>
class TestWithParam : public Test {
 protected:
  [[nodiscard]] static T GetParam() { return static_cast<T>(parameter()); }
};
template <class T>
std::vector<std::size_t> Range(T begin, T end) {
  std::vector<std::size_t> all;
  for (T i = begin; i < end; ++i) all.push_back(static_cast<std::size_t>(i));
  return all;
}

struct Registered {
  std::string suite, name;
  bool has_parameters;
  std::function<Test*()> make;
};
inline std::vector<Registered>& registered() {
  static std::vector<Registered> all;
  return all;
}
inline std::map<std::string, std::vector<std::size_t>>& parameters() {
  static std::map<std::string, std::vector<std::size_t>> all;
  return all;
}
inline bool add_test(const char* suite, const char* name, bool has_parameters,
                     std::function<Test*()> make) {
  registered().push_back({suite, name, has_parameters, std::move(make)});
  return true;
}

}  // namespace testing

#define GTEST_CLASS(suite, name) suite##_##name##_Test
#define GTEST_DEFINE(suite, name, base, parametrised)                                      \
  class GTEST_CLASS(suite, name) : public base {                                           \
    void TestBody() override;                                                              \
  };                                                                                       \
  [[maybe_unused]] static const bool suite##_##name##_added =                              \
      ::testing::add_test(#suite, #name, parametrised,                                     \
                          []() -> ::testing::Test* { return new GTEST_CLASS(suite, name); }); \
  void GTEST_CLASS(suite, name)::TestBody()
#define TEST(suite, name) GTEST_DEFINE(suite, name, ::testing::Test, false)
#define TEST_F(suite, name) GTEST_DEFINE(suite, name, suite, false)
#define TEST_P(suite, name) GTEST_DEFINE(suite, name, suite, true)
#define INSTANTIATE_TEST_SUITE_P(prefix, suite, ...) \
  [[maybe_unused]] static const bool suite##_instantiated = \
      (::testing::parameters()[#suite] = (__VA_ARGS__), true)

#define GTEST_CHECK_(condition, what, leave)                                             \
  if (const auto gtest_result = ::testing::AssertionResult::of(condition); gtest_result) { \
  } else                                                                                 \
    leave ::testing::Report(__FILE__, __LINE__, what + (" " + gtest_result.text())) =     \
        ::testing::Message()
#define EXPECT_TRUE(c) GTEST_CHECK_(c, std::string(#c " is false"), )
#define ASSERT_TRUE(c) GTEST_CHECK_(c, std::string(#c " is false"), return)
#define EXPECT_FALSE(c) GTEST_CHECK_(!(c), std::string(#c " is true"), )
#define ASSERT_FALSE(c) GTEST_CHECK_(!(c), std::string(#c " is true"), return)
#define EXPECT_EQ(a, b) GTEST_CHECK_((a) == (b), std::string(#a " is not " #b), )
#define ASSERT_EQ(a, b) GTEST_CHECK_((a) == (b), std::string(#a " is not " #b), return)
#define EXPECT_NE(a, b) GTEST_CHECK_((a) != (b), std::string(#a " is " #b), )
#define EXPECT_GE(a, b) GTEST_CHECK_((a) >= (b), std::string(#a " is below " #b), )
#define EXPECT_LT(a, b) GTEST_CHECK_((a) < (b), std::string(#a " is not below " #b), )
#define GTEST_SKIP() return ::testing::Report(__FILE__, __LINE__, "", true) = ::testing::Message()
