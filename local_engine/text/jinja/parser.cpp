#include "local_engine/text/jinja/parser.hpp"

#include "local_engine/text/jinja/lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

namespace verbatim::local_engine::jinja {

namespace {

constexpr int kDepthMax = 150;      // brackets, statements, ... within one another
constexpr int kTreeDepthMax = 500;  // a chain like a + b + c + ... is as deep as it is long
constexpr std::size_t kSourceBytesMax = std::size_t{4} << 20;

class Parser {
 public:
  explicit Parser(std::string source) {
    if (source.size() > kSourceBytesMax) fail("the template is larger than 4 MiB", 0);
    template_.source = normalize_source(source);
    tokens_ = tokenize(template_.source);
  }

  Template run() {
    template_.body = body({});
    return std::move(template_);
  }

 private:
  /// Counts nesting, so that a hostile template cannot exhaust the stack.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDepthMax) fail("the template is nested too deeply", parser_.here());
    }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };

  // Tokens.

  [[nodiscard]] const Token& current() const { return tokens_[next_]; }
  [[nodiscard]] const Token& ahead() const {
    return tokens_[std::min(next_ + 1, tokens_.size() - 1)];
  }
  [[nodiscard]] Position here() const { return current().at; }
  Token take() {
    Token token = current();
    if (token.kind != TokenKind::end) ++next_;
    return token;
  }
  [[nodiscard]] bool is_op(std::string_view text) const {
    return current().kind == TokenKind::op && current().text == text;
  }
  [[nodiscard]] bool is_name(std::string_view text) const {
    return current().kind == TokenKind::name && current().text == text;
  }
  bool accept_op(std::string_view text) { return is_op(text) && (++next_, true); }
  bool accept_name(std::string_view text) { return is_name(text) && (++next_, true); }
  void expect_op(std::string_view text) {
    if (!accept_op(text)) unexpected("'" + std::string(text) + "'");
  }
  void expect_name(std::string_view text) {
    if (!accept_name(text)) unexpected("'" + std::string(text) + "'");
  }
  std::string expect_identifier() {
    if (current().kind != TokenKind::name) unexpected("a name");
    return take().text;
  }
  void expect_block_end() {
    if (current().kind != TokenKind::block_end) unexpected("the end of the block tag");
    ++next_;
  }
  [[noreturn]] void unexpected(const std::string& expected) const {
    const Token& token = current();
    std::string found;
    switch (token.kind) {
      case TokenKind::end:
        found = "the end of the template";
        break;
      case TokenKind::variable_end:
      case TokenKind::block_end:
        found = "the end of the tag";
        break;
      case TokenKind::data:
      case TokenKind::variable_begin:
      case TokenKind::block_begin:
        found = "the start of a tag";
        break;
      default:
        found = "'" + token.text.substr(0, 40) + "'";
    }
    fail("expected " + expected + ", found " + found, token.at);
  }

  Symbol symbol(const std::string& name) {
    const auto [found, is_new] =
        symbols_.emplace(name, static_cast<Symbol>(template_.names.size()));
    if (is_new) template_.names.push_back(name);
    return found->second;
  }

  // Statements.

  /// Statements up to a block tag that begins with one of `ends`; that name is left as the current token. With no
  /// `ends`, up to the end of the template.
  Body body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Body out;
    while (true) {
      const Token& token = current();
      if (token.kind == TokenKind::end) {
        if (ends.size() == 0) return out;
        unexpected("'" + std::string(*(ends.end() - 1)) + "'");
      }
      if (token.kind == TokenKind::data) {
        auto stmt = make(StmtKind::data);
        stmt->text = take().text;
        out.push_back(std::move(stmt));
      } else if (token.kind == TokenKind::variable_begin) {
        ++next_;
        auto stmt = make(StmtKind::output);
        stmt->expr = tuple_or_expression();
        if (current().kind != TokenKind::variable_end) unexpected("the end of the print tag");
        ++next_;
        out.push_back(std::move(stmt));
      } else {
        ++next_;  // block_begin
        if (current().kind != TokenKind::name) unexpected("the name of a statement");
        if (std::find(ends.begin(), ends.end(), current().text) != ends.end()) return out;
        out.push_back(statement());
      }
    }
  }

  /// A body, and the closing tag after it.
  Body body_until(std::string_view end) {
    Body out = body({end});
    ++next_;
    expect_block_end();
    return out;
  }

  std::unique_ptr<Stmt> make(StmtKind kind) const {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = kind;
    stmt->at = here();
    return stmt;
  }

  std::unique_ptr<const Stmt> statement() {
    const Position at = here();
    const std::string name = take().text;
    if (name == "if") return if_statement(at);
    if (name == "for") return for_statement(at);
    if (name == "set") return set_statement(at);
    if (name == "macro") return macro_statement(at);
    if (name == "call") return call_statement(at);
    if (name == "filter") return filter_statement(at);
    if (name == "with") return with_statement(at);
    auto stmt = std::make_unique<Stmt>();
    stmt->at = at;
    if (name == "break" || name == "continue") {
      if (loops_ == 0) fail("'" + name + "' outside of a loop", at);
      stmt->kind = name == "break" ? StmtKind::break_loop : StmtKind::continue_loop;
      expect_block_end();
      return stmt;
    }
    if (name == "generation") {
      stmt->kind = StmtKind::generation;
      expect_block_end();
      stmt->body = body_until("endgeneration");
      return stmt;
    }
    constexpr std::array<std::string_view, 10> kUnsupported = {
        "block",      "extends", "include", "import", "from",
        "autoescape", "do",      "trans",   "debug",  "print"};
    if (std::find(kUnsupported.begin(), kUnsupported.end(), name) != kUnsupported.end()) {
      refuse("the statement '" + name + "' is not supported", at);
    }
    fail("unknown statement '" + name + "'", at);
  }

  std::unique_ptr<const Stmt> if_statement(Position at) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::if_else;
    stmt->at = at;
    ExprPtr condition = tuple_or_expression(/*with_condition=*/false);
    while (true) {
      expect_block_end();
      Body block = body({"elif", "else", "endif"});
      stmt->branches.emplace_back(std::move(condition), std::move(block));
      const std::string end = take().text;
      if (end == "elif") {
        condition = tuple_or_expression(/*with_condition=*/false);
        continue;
      }
      if (end == "else") {
        expect_block_end();
        stmt->branches.emplace_back(nullptr, body({"endif"}));
        ++next_;
      }
      expect_block_end();
      return stmt;
    }
  }

  std::unique_ptr<const Stmt> for_statement(Position at) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::for_loop;
    stmt->at = at;
    stmt->target = target(/*namespaces=*/false);
    expect_name("in");
    stmt->expr = tuple_or_expression(/*with_condition=*/false);
    if (accept_name("if")) stmt->condition = expression();
    stmt->recursive = accept_name("recursive");
    expect_block_end();
    ++loops_;
    stmt->body = body({"else", "endfor"});
    --loops_;
    if (accept_name("else")) {
      expect_block_end();
      stmt->other = body({"endfor"});
    }
    ++next_;
    expect_block_end();
    return stmt;
  }

  std::unique_ptr<const Stmt> set_statement(Position at) {
    auto stmt = std::make_unique<Stmt>();
    stmt->at = at;
    stmt->target = target(/*namespaces=*/true);
    if (accept_op("=")) {
      stmt->kind = StmtKind::set;
      stmt->expr = tuple_or_expression();
      expect_block_end();
      return stmt;
    }
    stmt->kind = StmtKind::set_block;
    if (is_op("|")) stmt->expr = filters(nullptr);
    expect_block_end();
    stmt->body = body_until("endset");
    return stmt;
  }

  /// One name, or several separated by commas.
  Target target(bool namespaces) {
    Target first = single_target(namespaces);
    if (!is_op(",")) return first;
    Target all;
    all.at = first.at;
    all.tuple.push_back(std::move(first));
    while (accept_op(",")) {
      if (current().kind != TokenKind::name && !is_op("(")) break;
      all.tuple.push_back(single_target(namespaces));
    }
    return all;
  }

  Target single_target(bool namespaces) {
    const Nesting nesting(*this);
    Target out;
    out.at = here();
    if (accept_op("(")) {
      Target inner = target(namespaces);
      expect_op(")");
      if (inner.tuple.empty()) return inner;
      return inner;
    }
    const std::string name = expect_identifier();
    if (is_constant(name)) fail("cannot assign to '" + name + "'", out.at);
    out.symbol = symbol(name);
    if (namespaces && accept_op(".")) out.attribute = expect_identifier();
    return out;
  }

  static bool is_constant(const std::string& name) {
    return name == "true" || name == "false" || name == "none" || name == "True" ||
           name == "False" || name == "None";
  }

  /// ( name, name = default, ... )
  std::vector<Parameter> parameters() {
    std::vector<Parameter> out;
    expect_op("(");
    while (!is_op(")")) {
      if (!out.empty()) expect_op(",");
      if (is_op(")")) break;
      Parameter parameter;
      const Position at = here();
      parameter.name = expect_identifier();
      parameter.symbol = symbol(parameter.name);
      if (accept_op("=")) {
        parameter.fallback = expression();
      } else if (!out.empty() && out.back().fallback != nullptr) {
        fail("a parameter without a default follows one with a default", at);
      }
      out.push_back(std::move(parameter));
    }
    expect_op(")");
    return out;
  }

  /// The body of a macro or a caller: which of the special names does it use?
  void macro_body(Stmt& stmt, std::string_view end) {
    const MacroUse outer = use_;
    const int outer_loops = std::exchange(loops_, 0);
    use_ = {};
    stmt.body = body_until(end);
    stmt.uses_varargs = use_.varargs;
    stmt.uses_kwargs = use_.kwargs;
    stmt.uses_caller = use_.caller;
    use_ = outer;
    loops_ = outer_loops;
  }

  std::unique_ptr<const Stmt> macro_statement(Position at) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::macro;
    stmt->at = at;
    stmt->text = expect_identifier();
    stmt->symbol = symbol(stmt->text);
    stmt->parameters = parameters();
    expect_block_end();
    macro_body(*stmt, "endmacro");
    return stmt;
  }

  std::unique_ptr<const Stmt> call_statement(Position at) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::call_block;
    stmt->at = at;
    stmt->text = "caller";
    if (is_op("(")) stmt->parameters = parameters();
    stmt->expr = expression();
    if (stmt->expr->kind != ExprKind::call) fail("a call block needs a call", at);
    expect_block_end();
    macro_body(*stmt, "endcall");
    return stmt;
  }

  std::unique_ptr<const Stmt> filter_statement(Position at) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::filter_block;
    stmt->at = at;
    stmt->expr = filters(nullptr, /*first_has_pipe=*/false);
    expect_block_end();
    stmt->body = body_until("endfilter");
    return stmt;
  }

  std::unique_ptr<const Stmt> with_statement(Position at) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::with;
    stmt->at = at;
    while (current().kind != TokenKind::block_end) {
      if (!stmt->assignments.empty()) expect_op(",");
      Target to = target(/*namespaces=*/false);
      expect_op("=");
      stmt->assignments.emplace_back(std::move(to), expression());
    }
    expect_block_end();
    stmt->body = body_until("endwith");
    return stmt;
  }

  // Expressions, the loosest binding first.

  std::unique_ptr<Expr> make(ExprKind kind, Position at) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->at = at;
    return expr;
  }
  std::unique_ptr<Expr> make(ExprKind kind, Position at, ExprPtr first,
                             ExprPtr second = nullptr) const {
    auto expr = make(kind, at);
    expr->items.push_back(std::move(first));
    if (second != nullptr) expr->items.push_back(std::move(second));
    measure(*expr);
    return expr;
  }

  /// Trees are walked and destroyed recursively, so their depth is bounded. To be called once an expression has
  /// all its parts.
  void measure(Expr& expr) const {
    const auto include = [&](const ExprPtr& part) {
      if (part != nullptr) expr.depth = std::max(expr.depth, part->depth + 1);
    };
    for (const ExprPtr& item : expr.items) include(item);
    for (const ExprPtr& item : expr.arguments.positional) include(item);
    for (const auto& [name, item] : expr.arguments.named) include(item);
    include(expr.arguments.star);
    include(expr.arguments.star_star);
    if (expr.depth > kTreeDepthMax) fail("an expression is too long", expr.at);
  }

  [[nodiscard]] bool is_tuple_end() const {
    const TokenKind kind = current().kind;
    return kind == TokenKind::variable_end || kind == TokenKind::block_end ||
           kind == TokenKind::end || is_op(")");
  }

  /// a, b, c is a tuple.
  ExprPtr tuple_or_expression(bool with_condition = true, bool in_parentheses = false) {
    const Position at = here();
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (true) {
      if (!items.empty()) {
        if (!accept_op(",")) break;
        is_tuple = true;
      }
      if (is_tuple_end()) break;
      items.push_back(with_condition ? expression() : logical_or());
    }
    if (items.size() == 1 && !is_tuple) return std::move(items[0]);
    if (items.empty() && !in_parentheses) unexpected("an expression");
    auto expr = make(ExprKind::tuple, at);
    expr->items = std::move(items);
    measure(*expr);
    return expr;
  }

  ExprPtr expression() {
    const Nesting nesting(*this);
    const Position at = here();
    ExprPtr value = logical_or();
    while (accept_name("if")) {
      ExprPtr condition = logical_or();
      ExprPtr other = accept_name("else") ? expression() : nullptr;
      auto expr = make(ExprKind::conditional, at, std::move(value), std::move(condition));
      expr->items.push_back(std::move(other));
      measure(*expr);
      value = std::move(expr);
    }
    return value;
  }

  ExprPtr logical_or() {
    ExprPtr left = logical_and();
    while (is_name("or")) {
      const Position at = take().at;
      left = make(ExprKind::logical_or, at, std::move(left), logical_and());
    }
    return left;
  }

  ExprPtr logical_and() {
    ExprPtr left = logical_not();
    while (is_name("and")) {
      const Position at = take().at;
      left = make(ExprKind::logical_and, at, std::move(left), logical_not());
    }
    return left;
  }

  ExprPtr logical_not() {
    if (!is_name("not")) return comparison();
    const Nesting nesting(*this);
    const Position at = take().at;
    return make(ExprKind::logical_not, at, logical_not());
  }

  std::optional<Op> comparison_operator() {
    static constexpr std::array<std::pair<std::string_view, Op>, 6> kOps = {
        {{"==", Op::equal},
         {"!=", Op::not_equal},
         {"<", Op::less},
         {"<=", Op::less_equal},
         {">", Op::greater},
         {">=", Op::greater_equal}}};
    for (const auto& [text, op] : kOps) {
      if (accept_op(text)) return op;
    }
    if (accept_name("in")) return Op::in;
    if (is_name("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
      next_ += 2;
      return Op::not_in;
    }
    return std::nullopt;
  }

  ExprPtr comparison() {
    const Position at = here();
    ExprPtr first = sum();
    auto op = comparison_operator();
    if (!op) return first;
    auto expr = make(ExprKind::comparison, at, std::move(first));
    while (op) {
      expr->ops.push_back(*op);
      expr->items.push_back(sum());
      op = comparison_operator();
    }
    measure(*expr);
    return expr;
  }

  ExprPtr arithmetic(Op op, Position at, ExprPtr left, ExprPtr right) {
    auto expr = make(ExprKind::arithmetic, at, std::move(left), std::move(right));
    expr->ops.push_back(op);
    return expr;
  }

  ExprPtr sum() {
    ExprPtr left = concat();
    while (is_op("+") || is_op("-")) {
      const Token op = take();
      left = arithmetic(op.text == "+" ? Op::add : Op::subtract, op.at, std::move(left), concat());
    }
    return left;
  }

  ExprPtr concat() {
    const Position at = here();
    ExprPtr first = product();
    if (!is_op("~")) return first;
    auto expr = make(ExprKind::concat, at, std::move(first));
    while (accept_op("~")) expr->items.push_back(product());
    measure(*expr);
    return expr;
  }

  ExprPtr product() {
    ExprPtr left = power();
    while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
      const Token token = take();
      const Op op = token.text == "*"    ? Op::multiply
                    : token.text == "/"  ? Op::divide
                    : token.text == "//" ? Op::floor_divide
                                         : Op::modulo;
      left = arithmetic(op, token.at, std::move(left), power());
    }
    return left;
  }

  ExprPtr power() {
    ExprPtr left = unary();
    while (is_op("**")) {
      const Position at = take().at;
      left = arithmetic(Op::power, at, std::move(left), unary());
    }
    return left;
  }

  ExprPtr unary(bool with_filters = true) {
    const Nesting nesting(*this);
    const Position at = here();
    ExprPtr expr;
    if (accept_op("-")) {
      expr = make(ExprKind::negate, at, unary(/*with_filters=*/false));
    } else if (accept_op("+")) {
      expr = make(ExprKind::positive, at, unary(/*with_filters=*/false));
    } else {
      expr = primary();
    }
    expr = postfix(std::move(expr));
    return with_filters ? filters_and_tests(std::move(expr)) : std::move(expr);
  }

  ExprPtr primary() {
    const Token& token = current();
    const Position at = token.at;
    switch (token.kind) {
      case TokenKind::name:
        return name_or_constant();
      case TokenKind::string: {
        auto expr = make(ExprKind::string, at);
        while (current().kind == TokenKind::string) expr->text += take().text;
        return expr;
      }
      case TokenKind::integer:
        return integer();
      case TokenKind::floating: {
        auto expr = make(ExprKind::real, at);
        std::from_chars(token.text.data(), token.text.data() + token.text.size(), expr->real);
        ++next_;
        return expr;
      }
      default:
        break;
    }
    if (accept_op("(")) {
      ExprPtr expr = tuple_or_expression(/*with_condition=*/true, /*in_parentheses=*/true);
      expect_op(")");
      return expr;
    }
    if (is_op("[")) return list();
    if (is_op("{")) return dict();
    unexpected("an expression");
  }

  ExprPtr name_or_constant() {
    const Token token = take();
    const std::string& name = token.text;
    if (name == "none" || name == "None") return make(ExprKind::none, token.at);
    if (is_constant(name)) {
      auto expr = make(ExprKind::boolean, token.at);
      expr->integer = name == "true" || name == "True" ? 1 : 0;
      return expr;
    }
    if (name == "varargs") use_.varargs = true;
    if (name == "kwargs") use_.kwargs = true;
    if (name == "caller") use_.caller = true;
    auto expr = make(ExprKind::name, token.at);
    expr->symbol = symbol(name);
    expr->text = name;
    return expr;
  }

  ExprPtr integer() {
    const Token token = take();
    auto expr = make(ExprKind::integer, token.at);
    std::string_view digits = token.text;
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0') {
      const char kind = static_cast<char>(digits[1] | 0x20);
      base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
      if (base != 10) digits.remove_prefix(2);
    }
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), expr->integer, base);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail("'" + token.text.substr(0, 40) + "' is not an integer of at most 64 bits", token.at);
    }
    return expr;
  }

  ExprPtr list() {
    const Nesting nesting(*this);
    auto expr = make(ExprKind::list, take().at);
    while (!is_op("]")) {
      if (!expr->items.empty()) expect_op(",");
      if (is_op("]")) break;
      expr->items.push_back(expression());
    }
    expect_op("]");
    measure(*expr);
    return expr;
  }

  ExprPtr dict() {
    const Nesting nesting(*this);
    auto expr = make(ExprKind::dict, take().at);
    while (!is_op("}")) {
      if (!expr->items.empty()) expect_op(",");
      if (is_op("}")) break;
      expr->items.push_back(expression());
      expect_op(":");
      expr->items.push_back(expression());
    }
    expect_op("}");
    measure(*expr);
    return expr;
  }

  ExprPtr postfix(ExprPtr expr) {
    while (true) {
      if (is_op(".")) {
        expr = dot(std::move(expr));
      } else if (is_op("[")) {
        expr = subscript(std::move(expr));
      } else if (is_op("(")) {
        expr = call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  ExprPtr dot(ExprPtr object) {
    const Position at = take().at;
    if (current().kind == TokenKind::name) {
      auto expr = make(ExprKind::attribute, at, std::move(object));
      expr->text = take().text;
      return expr;
    }
    if (current().kind != TokenKind::integer) unexpected("a name or a number");
    return make(ExprKind::subscript, at, std::move(object), integer());
  }

  ExprPtr subscript(ExprPtr object) {
    const Nesting nesting(*this);
    const Position at = take().at;
    std::vector<ExprPtr> items;
    bool is_tuple = false;
    while (!is_op("]")) {
      if (!items.empty()) {
        expect_op(",");
        is_tuple = true;
        if (is_op("]")) break;
      }
      items.push_back(slice_or_expression());
    }
    expect_op("]");
    if (items.empty()) fail("expected a subscript", at);
    if (items.size() == 1 && !is_tuple) {
      return make(ExprKind::subscript, at, std::move(object), std::move(items[0]));
    }
    auto tuple = make(ExprKind::tuple, at);
    tuple->items = std::move(items);
    measure(*tuple);
    return make(ExprKind::subscript, at, std::move(object), std::move(tuple));
  }

  ExprPtr slice_or_expression() {
    const Position at = here();
    ExprPtr first = is_op(":") ? nullptr : expression();
    if (!is_op(":")) return first;
    auto expr = make(ExprKind::slice, at);
    expr->items.push_back(std::move(first));
    for (int part = 0; part < 2; ++part) {
      const bool given = accept_op(":") && !is_op(":") && !is_op("]") && !is_op(",");
      expr->items.push_back(given ? expression() : nullptr);
    }
    measure(*expr);
    return expr;
  }

  ExprPtr call(ExprPtr callee) {
    const Position at = here();
    auto expr = make(ExprKind::call, at, std::move(callee));
    expr->arguments = arguments();
    measure(*expr);
    return expr;
  }

  Arguments arguments() {
    const Nesting nesting(*this);
    Arguments out;
    expect_op("(");
    bool first = true;
    while (!is_op(")")) {
      if (!first) expect_op(",");
      if (is_op(")")) break;
      first = false;
      if (accept_op("**")) {
        if (out.star_star != nullptr) fail("invalid syntax for a call", here());
        out.star_star = expression();
      } else if (accept_op("*")) {
        if (out.star != nullptr || out.star_star != nullptr)
          fail("invalid syntax for a call", here());
        out.star = expression();
      } else if (current().kind == TokenKind::name && ahead().kind == TokenKind::op &&
                 ahead().text == "=") {
        std::string name = take().text;
        ++next_;
        out.named.emplace_back(std::move(name), expression());
      } else {
        if (!out.named.empty() || out.star != nullptr || out.star_star != nullptr) {
          fail("a positional argument follows a keyword argument", here());
        }
        out.positional.push_back(expression());
      }
    }
    expect_op(")");
    return out;
  }

  ExprPtr filters_and_tests(ExprPtr expr) {
    while (true) {
      if (is_op("|")) {
        expr = filters(std::move(expr));
      } else if (is_name("is")) {
        expr = test(std::move(expr));
      } else if (is_op("(")) {
        expr = call(std::move(expr));
      } else {
        return expr;
      }
    }
  }

  std::string dotted_name() {
    std::string name = expect_identifier();
    while (accept_op(".")) name += "." + expect_identifier();
    return name;
  }

  ExprPtr filters(ExprPtr expr, bool first_has_pipe = true) {
    bool first = !first_has_pipe;
    while (first || is_op("|")) {
      if (!first) ++next_;
      first = false;
      const Position at = here();
      std::string name = dotted_name();
      auto filter = make(ExprKind::filter, at, std::move(expr));
      filter->text = std::move(name);
      if (is_op("(")) filter->arguments = arguments();
      measure(*filter);
      expr = std::move(filter);
    }
    return expr;
  }

  [[nodiscard]] bool begins_test_argument() const {
    switch (current().kind) {
      case TokenKind::name:
        return !is_name("else") && !is_name("or") && !is_name("and");
      case TokenKind::string:
      case TokenKind::integer:
      case TokenKind::floating:
        return true;
      default:
        return is_op("(") || is_op("[") || is_op("{");
    }
  }

  ExprPtr test(ExprPtr expr) {
    const Nesting nesting(*this);
    const Position at = take().at;
    const bool negated = accept_name("not");
    std::string name = dotted_name();
    auto out = make(ExprKind::test, at, std::move(expr));
    out->text = std::move(name);
    if (is_op("(")) {
      out->arguments = arguments();
    } else if (begins_test_argument()) {
      if (is_name("is")) fail("tests cannot be chained", here());
      out->arguments.positional.push_back(postfix(primary()));
    }
    measure(*out);
    if (!negated) return out;
    return make(ExprKind::logical_not, at, std::move(out));
  }

  struct MacroUse {
    bool varargs = false;
    bool kwargs = false;
    bool caller = false;
  };

  Template template_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // how many loops surround the statement, within the same macro
  MacroUse use_;   // of the macro being parsed
  std::unordered_map<std::string, Symbol> symbols_;
};

}  // namespace

Template parse(std::string source) { return Parser(std::move(source)).run(); }

std::string describe(const std::string& source, Position at) {
  const std::size_t end = std::min<std::size_t>(at, source.size());
  std::size_t line = 1;
  std::size_t column = 1;
  for (std::size_t i = 0; i < end; ++i) {
    if (source[i] == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(source[i]) & 0xc0) != 0x80) {
      ++column;
    }
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column);
}

}  // namespace verbatim::local_engine::jinja
