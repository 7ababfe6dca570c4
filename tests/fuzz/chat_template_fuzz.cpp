// Chat templates, and the messages that they print: bounded time and output whatever they are.

#include "local_engine/chat_template.hpp"
#include "schema/ordered_json.hpp"
#include "tests/fuzz/target.hpp"

namespace verbatim::fuzz {

namespace {

using namespace local_engine;

constexpr std::size_t kOutputMax = std::size_t{16} << 20;

/// A template, a NUL byte, and JSON that it is given; the latter may be missing.
void run(std::string_view input) {
  const std::string_view source = take_part(input);
  const auto parsed = ChatTemplate::parse(std::string(source));
  if (!parsed) {
    VERBATIM_CHECK(!parsed.error().what.empty());
    return;
  }
  VERBATIM_CHECK((*parsed)->sha256() == verbatim::sha256(source));
  RenderInput with;
  with.messages = OrderedJson::parse(
      R"([{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"Hi"}]}])");
  with.variables = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  if (auto given = parse_ordered_json(input)) {
    if (given->is_array()) with.messages = *given;
    if (given->is_object()) with.variables = *given;
    with.tools = std::move(*given);
  }
  const auto text = (*parsed)->render(with);
  if (!text) {
    VERBATIM_CHECK(!text.error().what.empty());
    return;
  }
  VERBATIM_CHECK(text->size() <= kOutputMax);
  // The same input gives the same text.
  VERBATIM_CHECK(*(*parsed)->render(with) == *text);
}

// Texts of several lines: NOLINTBEGIN(bugprone-suspicious-missing-comma)
std::vector<std::string> seeds() {
  const std::string given =
      std::string(1, '\0') +
      R"({"x":[1,-2.5,"a",null,{"k":true}],"s":"na\u00efve","n":18446744073709551615})";
  return {
      "{{ bos_token }}{% for m in messages %}{% if loop.first and m.role == 'system' %}{{ "
      "m['content'] }}"
      "{% elif m['role'] != 'user' %}{{ raise_exception('no') }}{% else %}[INST] {{ m.content | "
      "trim }}"
      "{% endif %}{%- endfor %}{% if add_generation_prompt %}A:{% endif %}",
      "{% macro f(a, b=2, *c, **d) -%}{{ a ~ b }}{% endmacro %}{{ f(1) }}{{ f(a='x', b=[1,2][0:1]) "
      "}}" +
          given,
      "{% set ns = namespace(n=0) %}{% for i in range(5) %}{% set ns.n = ns.n + i * 2 // 3 % 4 ** "
      "2 %}"
      "{% if i == 3 %}{% break %}{% endif %}{% endfor %}{{ ns.n }}" +
          given,
      "{{ x | map('string') | join(', ') | upper | replace('A', 'b') }}{{ s[::-1] }}{{ "
      "s.split('v') | tojson }}"
      "{{ x | tojson(indent=2) }}{{ {'a': 1}.items() | list }}{{ x[-1].k is defined and not (s in "
      "'abc') }}" +
          given,
      "{{ strftime_now('%d %B %Y') }}{{ '%s %5.2f' % ('a', 1.5) }}{{ '{:>5}'.format('x') }}{{ x | "
      "length }}"
      "{{ messages | selectattr('role', 'equalto', 'user') | list | last }}{{ n * n }}{{ 'a' * 10 "
      "}}" +
          given,
      "{% filter upper %}x{% endfilter %}{% raw %}{{ }}{% endraw %}{# c #}{%- generation %}y{% "
      "endgeneration %}",
      "{{ x | sort }}{{ x | groupby('k') }}{{ s | indent(4) | title | capitalize | int(3) | float "
      "| abs }}"
      "{% for a, b in {'k': 1}.items() recursive %}{{ loop.index }}{{ loop(b) }}{% else %}{% "
      "endfor %}" +
          given,
  };
}
// NOLINTEND(bugprone-suspicious-missing-comma)

const Registration kChatTemplate({"chat_template",
                                  run,
                                  seeds,
                                  {"{{",
                                   "}}",
                                   "{%",
                                   "%}",
                                   "{%-",
                                   "-%}",
                                   "{#",
                                   "#}",
                                   " for ",
                                   " in ",
                                   " if ",
                                   "endfor",
                                   "endif",
                                   "macro",
                                   "namespace(",
                                   "range(",
                                   " ** ",
                                   " // ",
                                   " % ",
                                   "| tojson",
                                   "| join",
                                   "| replace(",
                                   ".split(",
                                   "* 99999999",
                                   "[::-1]",
                                   "[-1]",
                                   "loop.",
                                   "99999999999999999999",
                                   "1e308",
                                   "| indent(",
                                   "| batch(",
                                   ".format(",
                                   "strftime_now(",
                                   "'",
                                   "\"",
                                   "((((((((",
                                   "not ",
                                   "call",
                                   "endmacro",
                                   "recursive"}});

}  // namespace

}  // namespace verbatim::fuzz
