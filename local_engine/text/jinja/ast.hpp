#pragma once
// What a template says, as a tree.

#include "local_engine/text/jinja/fault.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace verbatim::local_engine::jinja {

/// A variable's name as a number: its place in Template::names.
using Symbol = std::uint32_t;

enum class Op {
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal,
  in,
  not_in,
};

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

enum class ExprKind {
  none,
  boolean,      ///< integer: 0 or 1
  integer,      ///< integer
  real,         ///< real
  string,       ///< text
  name,         ///< symbol, text
  list,         ///< items
  tuple,        ///< items
  dict,         ///< items: key, value, key, value, ...
  negate,       ///< items[0]
  positive,     ///< items[0]
  logical_not,  ///< items[0]
  logical_and,  ///< items[0], items[1]
  logical_or,   ///< items[0], items[1]
  arithmetic,   ///< ops[0] of items[0], items[1]
  comparison,   ///< items[0] ops[0] items[1] ops[1] items[2] ...
  concat,       ///< items, as texts
  conditional,  ///< items[0] if items[1] else items[2]; the last may be null
  attribute,    ///< items[0] . text
  subscript,    ///< items[0] [ items[1] ]
  slice,        ///< items[0] : items[1] : items[2], each may be null; only within a subscript
  call,         ///< items[0] ( arguments )
  filter,       ///< items[0] | text ( arguments ); items[0] is null at the head of a filter block
  test,         ///< items[0] is text ( arguments )
};

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star;       ///< *args, or null
  ExprPtr star_star;  ///< **kwargs, or null
};

struct Expr {
  ExprKind kind{};
  Position at = 0;
  int depth = 1;  ///< levels of the tree below and including this
  std::int64_t integer = 0;
  double real = 0;
  std::string text;
  Symbol symbol = 0;
  std::vector<ExprPtr> items;
  std::vector<Op> ops;
  Arguments arguments;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<const Stmt>>;

/// What an assignment or a loop assigns to.
struct Target {
  Position at = 0;
  Symbol symbol = 0;          ///< a variable, or the namespace of `attribute`
  std::string attribute;      ///< not empty: symbol.attribute
  std::vector<Target> tuple;  ///< not empty: unpacked
};

struct Parameter {
  Symbol symbol = 0;
  std::string name;
  ExprPtr fallback;  ///< null: undefined when not given
};

enum class StmtKind {
  data,          ///< text
  output,        ///< expr
  if_else,       ///< branches: (condition, body), the last condition may be null
  for_loop,      ///< target, expr (iterable), condition, body, other (else), flag (recursive)
  set,           ///< target, expr
  set_block,     ///< target, body, expr (filters around the text, or null)
  macro,         ///< symbol, text (name), parameters, body, uses_*
  call_block,    ///< expr (the call), parameters, body: the caller
  filter_block,  ///< expr (filters around the text), body
  with,          ///< assignments, body
  generation,    ///< body
  break_loop,
  continue_loop,
};

struct Stmt {
  StmtKind kind{};
  Position at = 0;
  std::string text;
  Symbol symbol = 0;
  Target target;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<std::pair<Target, ExprPtr>> assignments;
  std::vector<Parameter> parameters;
  Body body;
  Body other;
  bool recursive = false;
  bool uses_varargs = false;  ///< the macro's body names them, so it takes any
  bool uses_kwargs = false;
  bool uses_caller = false;
};

struct Template {
  std::string source;  ///< normalized; positions refer to it
  std::vector<std::string> names;
  Body body;
};

}  // namespace verbatim::local_engine::jinja
