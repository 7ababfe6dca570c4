// The template engine's rules. Expected texts are what Jinja 3.1 with Hugging Face's settings prints.

#include "local_engine/chat_template.hpp"

#include "schema/bytes.hpp"
#include "schema/clock.hpp"
#include "schema/file.hpp"
#include "tests/local_text/gguf_writer.hpp"
#include "tests/support/shared.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>

namespace verbatim::local_engine {
namespace {

OrderedJson sample() {
  return OrderedJson::parse(R"({
    "s": "Hello wOrld", "n": null, "i": 7, "f": 2.5, "l": [3, 1, 2], "d": {"b": 1, "a": 2, "items": 5},
    "t": true, "ms": [{"role": "user", "content": "hi", "x": {"y": 1}}, {"role": "Tool", "content": null}],
    "big": 18446744073709551615, "u": "na\u00efve \u65e5\u672c"})");
}

Result<std::string> try_render(const std::string& source, const OrderedJson& variables = sample()) {
  const auto parsed = ChatTemplate::parse(source);
  if (!parsed) return parsed.error();
  RenderInput input;
  input.variables = variables;
  input.now_us = parse_rfc3339("2025-07-26T12:34:56Z").value();
  return (*parsed)->render(input);
}

std::string render(const std::string& source) {
  const auto text = try_render(source);
  return text ? *text : "error: " + text.error().message();
}

TEST(ChatTemplate, DropsWhiteSpaceAsHuggingFaceSets) {
  EXPECT_EQ(render("  {% if true %}\n  a\n  {% endif %}\nb\n"), "  a\nb");
  EXPECT_EQ(render("x {%- if true -%}  \n a {%- endif %} y"), "xa y");
  EXPECT_EQ(render("  {%+ if true %}z{% endif +%}\nend"), "  z\nend");
  EXPECT_EQ(render(" {# gone #}\nx {# here #} y"), "x  y");
  EXPECT_EQ(render("a\r\nb\rc\n\n"), "a\nb\nc\n");
  EXPECT_EQ(render("{{ 1 }}\n{{ 2 }}\n"), "1\n2");
  EXPECT_EQ(render("{% raw %}{{ x }}{% if %}{% endraw %}"), "{{ x }}{% if %}");
}

TEST(ChatTemplate, PrintsValuesAsPythonDoes) {
  EXPECT_EQ(render("{{ n }} {{ t }} {{ 2.0 }} {{ 1e20 }} {{ 1e-7 }} {{ 0.1 + 0.2 }}"),
            "None True 2.0 1e+20 1e-07 0.30000000000000004");
  EXPECT_EQ(render("{{ [1, 'a', none, true, (1,)] }} {{ {'k': \"it's\"} }}"),
            "[1, 'a', None, True, (1,)] {'k': \"it's\"}");
  EXPECT_EQ(render("{{ ['a\\n\\x00\\u2028', u] }}"),
            "['a\\n\\x00\\u2028', 'na\xc3\xafve \xe6\x97\xa5\xe6\x9c\xac']");
  EXPECT_EQ(render("{{ big }} {{ range(3) }} {{ none_such }}|"),
            "18446744073709551615 range(0, 3) |");
}

TEST(ChatTemplate, CalculatesAsPythonDoes) {
  EXPECT_EQ(
      render("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }}"),
      "3 -4 2 3.5 1024 0.5");
  EXPECT_EQ(render("{{ 1 + 2 * 3 ** 2 - 4 }} {{ -i | abs }} {{ 2 ~ 'x' ~ none }} {{ 1 < 2 < 3 }}"),
            "15 7 2xNone True");
  EXPECT_EQ(render("{{ 'ab' * 2 }} {{ [1] + [2] }} {{ 'a' in 'abc' }} {{ 3 not in l }} {{ 1 == 1.0 "
                   "== true }}"),
            "abab [1, 2] True False True");
  EXPECT_EQ(render("{{ 9223372036854775807 + 1 }}"),
            "error: an integer is beyond 64 bits (chat template, line 1, column 24)");
  EXPECT_EQ(render("{{ 1 // 0 }}"), "error: division by zero (chat template, line 1, column 6)");
}

TEST(ChatTemplate, SlicesByCodePoints) {
  EXPECT_EQ(
      render("{{ u[2] }} {{ u[-2:] }} {{ u[::-1] }} {{ l[::-1] }} {{ l[:-1] }} {{ s[1:8:3] }}"),
      "\xc3\xaf \xe6\x97\xa5\xe6\x9c\xac \xe6\x9c\xac\xe6\x97\xa5 ev\xc3\xaf"
      "an [2, 1, 3] [3, 1] eoO");
}

TEST(ChatTemplate, UndefinedIsSilentUntilItIsUsed) {
  EXPECT_EQ(
      render(
          "{{ a }}{{ d.zz }}{{ a is defined }}{{ a | default('x') }}{{ n | default('y', true) }}"),
      "Falsexy");
  EXPECT_EQ(render("{{ a.b }}"), "error: 'a' is undefined (chat template, line 1, column 5)");
  EXPECT_EQ(render("{{ d.b.c.e }}"),
            "error: 'int object' has no attribute 'c' (chat template, line 1, column 9)");
  EXPECT_EQ(render("{{ a == n }} {{ 'q' in a }} {{ a | length }}{% for x in a %}x{% endfor %}"),
            "False False 0");
}

TEST(ChatTemplate, LoopsKnowWhereTheyAre) {
  EXPECT_EQ(render("{% for x in l %}{{ loop.index }}{{ loop.revindex0 }}{{ loop.first }}{{ "
                   "loop.previtem }};{% endfor %}"),
            "12True;21False3;30False1;");
  EXPECT_EQ(render("{% for x in range(9) if x is even %}{% if x == 4 %}{% continue %}{% endif %}{% "
                   "if x == 8 %}"
                   "{% break %}{% endif %}{{ x }}/{{ loop.length }} {% endfor %}"),
            "0/5 2/5 6/5 ");
  EXPECT_EQ(render("{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}{% for x in [] %}{% else "
                   "%}none{% endfor %}"),
            "b1a2items5none");
  EXPECT_EQ(render("{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% "
                   "else %}{{ x }}"
                   "{{ loop.depth }}{% endif %}{% endfor %}"),
            "11(22(33))");
}

TEST(ChatTemplate, AssignmentsStayInTheirScope) {
  EXPECT_EQ(render("{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }} {% endfor %}{{ x }}"),
            "4 2 3 1");
  EXPECT_EQ(render("{% set ns = namespace(x=1) %}{% for y in l %}{% set ns.x = ns.x + y %}{% "
                   "endfor %}{{ ns.x }}"),
            "7");
  EXPECT_EQ(
      render(
          "{% if t %}{% set x = 5 %}{% endif %}{{ x }}{% with x = 6 %}{{ x }}{% endwith %}{{ x }}"),
      "565");
  EXPECT_EQ(render("{% generation %}{% set z = 1 %}{{ z }}{% endgeneration %}{{ z }}"), "1");
  EXPECT_EQ(render("{% set a, (b, c) = 1, (2, 3) %}{{ a }}{{ b }}{{ c }}{% set x | upper %}q{% "
                   "endset %}{{ x }}"),
            "123Q");
}

TEST(ChatTemplate, MacrosTakeArgumentsAndCallers) {
  EXPECT_EQ(render("{% macro m(a, b='B') %}[{{ a }}{{ b }}{{ varargs }}{{ kwargs }}]{% endmacro %}"
                   "{{ m(1) }}{{ m(1, 2, 3) }}{{ m(b=2, a=1, z=9) }}"),
            "[1B(){}][12(3,){}][12(){'z': 9}]");
  EXPECT_EQ(
      render(
          "{% macro m() %}<{{ caller(5) }}>{% endmacro %}{% call(x) m() %}{{ x }}!{% endcall %}"),
      "<5!>");
  EXPECT_EQ(
      render(
          "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}"),
      "3210");
  EXPECT_EQ(
      render("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
      "error: macro 'm' takes not more than 1 argument(s) (chat template, line 1, column 35)");
}

TEST(ChatTemplate, AMacroOutlivesTheBlockItIsDefinedIn) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% for x in l %}{% macro m() %}{{ x }}{% endmacro "
                   "%}{% set ns.m = m %}"
                   "{% endfor %}{{ ns.m() }}"),
            "2");
}

TEST(ChatTemplate, FiltersDoWhatJinjasDo) {
  EXPECT_EQ(render("{{ l | sort }} {{ l | sort(reverse=true) | join('-') }} {{ s | title }} {{ l | "
                   "sum }} {{ l | max }}"),
            "[1, 2, 3] 3-2-1 Hello World 6 3");
  EXPECT_EQ(render("{{ ms | map(attribute='role') | map('upper') | list }} {{ ms | "
                   "selectattr('content') | list | length }}"),
            "['USER', 'TOOL'] 1");
  EXPECT_EQ(render("{{ ms | rejectattr('role', 'equalto', 'user') | map(attribute='role') | first "
                   "}} {{ n | map('upper') | list }}"),
            "Tool []");
  EXPECT_EQ(render("{{ d | dictsort }} {{ d | items | list | first }} {{ 'a\\nb' | indent(2) }}"),
            "[('a', 2), ('b', 1), ('items', 5)] ('b', 1) a\n  b");
  EXPECT_EQ(render("{{ 'x' | int(5) }} {{ '3.9' | int }} {{ 2.5 | round }} {{ '<' | e }} {{ ('<' | "
                   "safe) + '<' }}"),
            "5 3 2.0 &lt; <&lt;");
  EXPECT_EQ(render("{{ ms | map(attribute='x.y', default='-') | list }} {{ ['b', 'A'] | sort }} {{ "
                   "[1, 1, 2] | unique | list }}"),
            "[1, '-'] ['A', 'b'] [1, 2]");
  EXPECT_EQ(render("{{ s | nope }}"),
            "error: no filter named 'nope' (chat template, line 1, column 8)");
}

TEST(ChatTemplate, AGeneratorIsTrueAndGoneThroughOnce) {
  EXPECT_EQ(render("{% set g = [] | map('upper') %}{% if g %}true{% endif %}"), "true");
  EXPECT_EQ(render("{% set g = l | map('string') %}{{ g | list }}{{ g | list }}"),
            "['3', '1', '2'][]");
}

TEST(ChatTemplate, TojsonIsThatOfHuggingFace) {
  EXPECT_EQ(render("{{ {'a': [1, 2.0, none, true, '<\xc3\xa9>'], 'b': {}} | tojson }}"),
            "{\"a\": [1, 2.0, null, true, \"<\xc3\xa9>\"], \"b\": {}}");
  EXPECT_EQ(render("{{ {'b': [], 'a': [1]} | tojson(indent=2, sort_keys=true) }}"),
            "{\n  \"a\": [\n    1\n  ],\n  \"b\": []\n}");
  EXPECT_EQ(render("{{ '\xc3\xa9\xf0\x9f\xa4\x94\\n\\x1f' | tojson(ensure_ascii=true) }}"),
            "\"\\u00e9\\ud83e\\udd14\\n\\u001f\"");
  EXPECT_EQ(render("{{ [1, {'a': 2}] | tojson(separators=(',', ':')) }} {{ big | tojson }}"),
            "[1,{\"a\":2}] 18446744073709551615");
  EXPECT_EQ(
      render("{{ a | tojson }}"),
      "error: Object of type Undefined is not JSON serializable (chat template, line 1, column 8)");
}

TEST(ChatTemplate, MethodsOfTextsListsAndDicts) {
  EXPECT_EQ(render("{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a b c'.rsplit(' ', 1) }} "
                   "{{ '--x-'.strip('-') }}"),
            "['a', 'b', '', 'c'] ['a', 'b'] ['a b', 'c'] x");
  EXPECT_EQ(render("{{ s.startswith(('x', 'He')) }} {{ s.replace('l', 'L', 2) }} {{ s.find('zz') "
                   "}} {{ '-'.join(['a', 'b']) }}"),
            "True HeLLo wOrld -1 a-b");
  EXPECT_EQ(render("{{ d.get('zz') }} {{ d['items'] }} {{ d.keys() | list }} {{ "
                   "'{}-{x:>3}'.format(1, x=2) }} {{ '%05.1f%%' % 2.25 }}"),
            "None 5 ['b', 'a', 'items'] 1-  2 002.2%");
  EXPECT_EQ(render("{% set q = [1] %}{{ q.append(2) }}{{ q.pop(0) }}{{ q }}"), "None1[2]");
}

TEST(ChatTemplate, TestsDoWhatJinjasDo) {
  EXPECT_EQ(render("{{ i is number }}{{ t is integer }}{{ s is string }}{{ d is mapping }}{{ d is "
                   "sequence }}{{ n is none }}"
                   "{{ t is true }}{{ i is not defined }}{{ i is divisibleby 7 }}{{ i is in [7] "
                   "}}{{ s is iterable }}"),
            "TrueFalseTrueTrueTrueTrueTrueFalseTrueTrueTrue");
}

TEST(ChatTemplate, TheClockIsTheRequests) {
  EXPECT_EQ(render("{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %B %a %j %-d %I %p %U %V') }}"),
            "2025-07-26 12:34:56 26 Jul July Sat 207 26 12 PM 29 30");
}

TEST(ChatTemplate, RaisedMessagesComeAsTheyAre) {
  const auto result = try_render("\n  {{ raise_exception('no ' ~ i) }}");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::invalid_input);
  EXPECT_EQ(result.error().what, "no 7");
}

TEST(ChatTemplate, FaultsNameLineAndColumn) {
  EXPECT_EQ(
      render("a\n\xc3\xa9{{ 1 + }}"),
      "error: expected an expression, found the end of the tag (chat template, line 2, column 9)");
  EXPECT_EQ(
      render("{% if x %}"),
      "error: expected 'endif', found the end of the template (chat template, line 1, column 11)");
  EXPECT_EQ(render("{{ 'a }}"), "error: a string is not closed (chat template, line 1, column 4)");
  EXPECT_EQ(render("{% frob %}"),
            "error: unknown statement 'frob' (chat template, line 1, column 4)");
  EXPECT_EQ(render("\n\n{{ 1 + 'a' }}"),
            "error: unsupported operand type(s) for +: 'int' and 'str' (chat template, line 3, "
            "column 6)");
}

TEST(ChatTemplate, StatementsThatAreNotSupportedAreRefusedByName) {
  for (const char* name :
       {"block", "extends", "include", "import", "from", "autoescape", "do", "trans"}) {
    const auto parsed = ChatTemplate::parse(std::string("{% ") + name + " x %}");
    ASSERT_FALSE(parsed) << name;
    EXPECT_EQ(parsed.error().code, Errc::unsupported);
    EXPECT_EQ(parsed.error().what, std::string("the statement '") + name + "' is not supported");
  }
}

TEST(ChatTemplate, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(ChatTemplate::parse("\xff").error().what, "the chat template is not UTF-8");
  OrderedJson variables;
  variables["x"] = "\xff";
  EXPECT_EQ(try_render("{{ x }}", variables).error().what, "a text of the request is not UTF-8");
}

TEST(ChatTemplate, AHostileTemplateEndsWithAnError) {
  const auto ends = [](const std::string& source) {
    const auto result = try_render(source);
    EXPECT_FALSE(result) << source.substr(0, 100);
  };
  const std::string loop = "{% for a in range(100000) %}";
  const std::string end = "{% endfor %}";
  ends(loop + loop + loop + end + end + end);          // time
  ends(loop + loop + "xxxxxxxxxxxxxxxx" + end + end);  // output
  ends("{% set ns = namespace(s='x') %}" + loop + "{% set ns.s = ns.s ~ ns.s %}" + end);
  ends("{% set ns = namespace(l=[1]) %}" + loop + "{% set ns.l = ns.l + ns.l %}" + end);
  ends("{{ 'x' * 1000000000 }}");
  ends("{{ [0] * 1000000000 }}");
  ends("{{ range(1000000000) }}");
  ends("{{ 'x'.ljust(1000000000) }}");
  ends("{{ '%1000000000d' % 1 }}");
  ends("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");  // recursion
  ends("{% set l = [] %}{{ l.append(l) }}{{ l }}");         // a list in itself
  ends("{% set l = [] %}{{ l.append(l) }}{{ l | tojson }}");
  ends(
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}{% endfor "
      "%}{{ ns.l }}");
  ends(
      "{% set ns = namespace(a=[], b=[]) %}{% for i in range(60) %}{% set ns.a = [ns.a, ns.a] %}"
      "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}");  // 2^60 comparisons
  ends("{{ " + std::string(100000, '(') + std::string(100000, ')') + " }}");
  ends("{{ " + std::string(100000, '-') + "1 }}");
  std::string sum = "{{ 1";
  for (int i = 0; i < 100000; ++i) sum += "+1";
  ends(sum + " }}");
  std::string nested;
  for (int i = 0; i < 100000; ++i) nested += "{% if 1 %}";
  ends(nested);
}

TEST(ChatTemplate, DeepRecursionFitsTheStackOfAThread) {
  std::string result;
  std::thread thread([&] {
    result = render(
        "{% macro m(n) %}{{ (((([m(n + 1)] | first) ~ '') | trim) | upper) | lower }}{% endmacro "
        "%}{{ m(0) }}");
  });
  thread.join();
  EXPECT_TRUE(result.starts_with("error: the template calls itself too deeply")) << result;
}

TEST(ChatTemplate, MutatedTemplatesNeverCrash) {
  const std::string source =
      "{%- set ns = namespace(a=1, l=[1, 2]) -%}\n{% macro m(a, b='x') %}{{ a ~ b | upper }}{{ "
      "caller() if caller else '' }}"
      "{% endmacro %}{% for m1 in ms if m1.role is string %}{{ loop.index }}{{ m1['content'] | "
      "default('', true) | trim }}"
      "{% if m1.x is defined and m1.x.y > 0 or not t %}{{ m(m1.role[::-1], b=m1 | "
      "tojson(indent=2)) }}{% elif loop.last %}"
      "{{ '%s-%d' % ('a', 5) }}{{ '{:>5}'.format(i) }}{% else %}{% break %}{% endif %}{% endfor "
      "%}{% raw %}{{{% endraw %}"
      "{% set x %}q{% endset %}{{ x.split(',')[0:2] }}{% call m(1) %}z{% endcall %}{{ l | sort | "
      "join(', ') }}";
  const auto whole = try_render(source);
  ASSERT_TRUE(whole) << whole.error().message();
  std::mt19937 random(17);
  const std::string alphabet = "{}%#-+|.()[]:,'\"0aeit =~*/<>!\n";
  int rendered = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string copy = source;
    for (std::size_t n = random() % 4 + 1; n > 0; --n) {
      const std::size_t at = random() % copy.size();
      switch (random() % 4) {
        case 0:
          copy[at] = alphabet[random() % alphabet.size()];
          break;
        case 1:
          copy.erase(at, random() % 12);
          break;
        case 2:
          copy.insert(at, copy.substr(random() % copy.size(), random() % 40));
          break;
        default:
          copy[at] = static_cast<char>(random());
      }
    }
    if (try_render(copy)) ++rendered;
  }
  EXPECT_GT(rendered, 100);
}

TEST(ChatTemplate, TheModelsTemplateIsFoundInItsFolder) {
  const auto folder = test::fresh_dir();
  EXPECT_EQ(load_chat_template(folder).value(), nullptr);
  ASSERT_TRUE(write_file(folder / "tokenizer_config.json", R"({"chat_template": "one"})"));
  EXPECT_EQ(load_chat_template(folder).value()->render({}).value(), "one");
  ASSERT_TRUE(write_file(
      folder / "tokenizer_config.json",
      R"({"chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": "two"}]})"));
  EXPECT_EQ(load_chat_template(folder).value()->render({}).value(), "two");
  ASSERT_TRUE(write_file(folder / "chat_template.jinja", "three"));
  const auto found = load_chat_template(folder).value();
  EXPECT_EQ(found->render({}).value(), "three");
  EXPECT_EQ(found->sha256(), sha256("three"));
  ASSERT_TRUE(write_file(folder / "chat_template.jinja", "{% x"));
  EXPECT_EQ(load_chat_template(folder).error().code, Errc::invalid_input);
}

TEST(ChatTemplate, TheTemplateOfAGgufIsInItsMetadata) {
  const auto folder = test::fresh_dir();
  test::GgufWriter with;
  with.text("tokenizer.chat_template", "{{ bos_token }}x");
  test::GgufWriter without;
  without.text("general.name", "x");
  ASSERT_TRUE(write_file(folder / "with.gguf", with.file()));
  ASSERT_TRUE(write_file(folder / "without.gguf", without.file()));
  RenderInput input;
  input.variables["bos_token"] = "<s>";
  EXPECT_EQ(load_chat_template(folder / "with.gguf").value()->render(input).value(), "<s>x");
  EXPECT_EQ(load_chat_template(folder / "without.gguf").value(), nullptr);
}

TEST(ChatTemplate, VariablesOfTheRequestReplaceThoseOfTheCall) {
  RenderInput input;
  input.messages = OrderedJson::parse(R"([{"role": "user", "content": "a"}])");
  input.add_generation_prompt = false;
  const auto parsed = ChatTemplate::parse(
                          "{{ messages[0].content }}{{ tools is none }}{{ add_generation_prompt "
                          "}}{{ enable_thinking }}")
                          .value();
  EXPECT_EQ(parsed->render(input).value(), "aTrueFalse");
  input.variables["enable_thinking"] = false;
  input.variables["add_generation_prompt"] = 5;
  EXPECT_EQ(parsed->render(input).value(), "aTrue5False");
}

}  // namespace
}  // namespace verbatim::local_engine
