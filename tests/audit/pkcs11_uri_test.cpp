// Names of keys in tokens (RFC 7512).

#include "audit/pkcs11_uri.hpp"

#include <gtest/gtest.h>

namespace verbatim::audit {
namespace {

std::string problem(const std::string& text) {
  const auto uri = parse_pkcs11_uri(text);
  return uri ? "" : uri.error().message();
}

TEST(Pkcs11UriTest, NamesModuleTokenKeyAndThePlaceOfThePin) {
  const auto uri = parse_pkcs11_uri(
                       "pkcs11:token=The%20token;serial=DE;slot-id=7;object=log;id=%01%ff;"
                       "type=private?module-path=/usr/lib/m.so&pin-source=file:/etc/pin")
                       .value();
  EXPECT_EQ(uri.token, "The token");
  EXPECT_EQ(uri.serial, "DE");
  EXPECT_EQ(uri.slot_id, 7u);
  EXPECT_EQ(uri.object, "log");
  EXPECT_EQ(uri.id, "\x01\xff");
  EXPECT_FALSE(uri.model);
  EXPECT_FALSE(uri.manufacturer);
  EXPECT_EQ(uri.module_path, "/usr/lib/m.so");
  EXPECT_EQ(uri.pin_file, "/etc/pin");
  EXPECT_EQ(uri.pin_variable, "");
  EXPECT_EQ(uri.shown(), "token The token, key log, id 01ff");
}

TEST(Pkcs11UriTest, ThePinIsInAFileOrInAVariable) {
  const auto pin = [](const std::string& source) {
    const auto uri = parse_pkcs11_uri("pkcs11:?module-path=/m.so&pin-source=" + source);
    return uri ? uri->pin_file + "|" + uri->pin_variable : uri.error().what;
  };
  EXPECT_EQ(pin("file:/etc/pin"), "/etc/pin|");
  EXPECT_EQ(pin("file:///etc/pin"), "/etc/pin|");
  EXPECT_EQ(pin("/etc/pin"), "/etc/pin|");
  EXPECT_EQ(pin("env:LOG_PIN"), "|LOG_PIN");
  for (const char* bad : {"", "env:", "file:pin", "file://host/pin", "|command", "1234"}) {
    EXPECT_EQ(pin(bad), "pin-source is neither a file nor a variable") << bad;
  }
}

TEST(Pkcs11UriTest, WhatIsNotKnownIsRefusedByName) {
  const std::string rest = "?module-path=/m.so";
  EXPECT_EQ(problem("pkcs11:" + rest), "");
  EXPECT_NE(problem("pkcs11:library-version=3" + rest).find("'library-version'"),
            std::string::npos);
  EXPECT_NE(problem("pkcs11:" + rest + "&module-name=m").find("'module-name'"), std::string::npos);
  EXPECT_NE(problem("pkcs11:token=a;token=b" + rest).find("twice"), std::string::npos);
  EXPECT_NE(problem("pkcs11:type=public" + rest).find("private"), std::string::npos);
  EXPECT_NE(problem("pkcs11:slot-id=x" + rest).find("slot-id"), std::string::npos);
  EXPECT_NE(problem("pkcs11:token=%2" + rest), "");
  EXPECT_NE(problem("pkcs11:token=%zz" + rest), "");
  EXPECT_NE(problem("pkcs11:token" + rest), "");
  EXPECT_NE(problem("pkcs11:=a" + rest), "");
  EXPECT_NE(problem("pkcs11:token=a b" + rest), "");
  EXPECT_NE(problem("pkcs11:token=a\n" + rest), "");
  EXPECT_NE(problem("pkcs11:token=" + std::string(1024, 'a') + rest), "");
  EXPECT_NE(problem("pkcs11:token=a").find("module-path"), std::string::npos);
  EXPECT_NE(problem("pkcs11:?module-path=m.so").find("module-path"), std::string::npos);
  EXPECT_NE(problem("pkcs11:?module-path=/m%00.so").find("module-path"), std::string::npos);
  EXPECT_NE(problem("PRIVATE+KEY+a"), "");
  EXPECT_NE(problem(""), "");
}

TEST(Pkcs11UriTest, APinInAUriIsRefusedAndNotRepeated) {
  for (const std::string uri :
       {"pkcs11:?module-path=/m.so&pin-value=canary", "pkcs11:?pin-value=canary&pin-value=canary",
        "pkcs11:pin-value=canary?module-path=/m.so"}) {
    EXPECT_NE(problem(uri), "");
    EXPECT_EQ(problem(uri).find("canary"), std::string::npos) << problem(uri);
  }
}

}  // namespace
}  // namespace verbatim::audit
