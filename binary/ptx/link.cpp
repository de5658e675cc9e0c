#include "binary/ptx/link.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "binary/ptx/lexer.h"
#include "binary/ptx/types.h"

namespace devtrace::ptx {
namespace {

// What stands outside of functions, from one word to another.
struct Item {
  enum class Kind : uint8_t { header, file, section, variable, function, other };
  Kind kind = Kind::other;
  bool external = false, weak = false, visible = false, defined = true;
  std::string_view name;
  size_t first = 0, last = 0;  // of Unit::words
};

struct Unit {
  std::vector<Token> words;
  std::vector<Item> items;
  std::map<std::string_view, std::string> renamed;
};

class Reader {
 public:
  explicit Reader(Unit* unit) : unit_(*unit) {}

  void read() {
    while (at_ < unit_.words.size()) {
      const size_t before = at_;
      Item item = next();
      item.first = before;
      item.last = at_ = std::min(std::max(at_, before + 1), unit_.words.size());
      unit_.items.push_back(item);
    }
  }

 private:
  std::string_view word(size_t at) const { return at < unit_.words.size() ? unit_.words[at].text : std::string_view(); }
  bool at_end() const { return at_ >= unit_.words.size(); }

  // Behind the bracket that closes the one here.
  void skip_brackets(std::string_view open, std::string_view close) {
    for (int depth = 0; !at_end(); ++at_) {
      if (word(at_) == open) ++depth;
      if (word(at_) == close && --depth == 0) {
        ++at_;
        return;
      }
    }
  }

  void skip_statement() {
    while (!at_end() && word(at_) != ";") ++at_;
    ++at_;
  }

  Item next() {
    Item item;
    for (;; ++at_) {
      const std::string_view linkage = word(at_);
      if (linkage == ".extern")
        item.external = true;
      else if (linkage == ".weak" || linkage == ".common")
        item.weak = true;
      else if (linkage == ".visible")
        item.visible = true;
      else
        break;
    }
    const std::string_view what = word(at_++);
    if (what == ".version" || what == ".target" || what == ".address_size" || what == ".file") {
      item.kind = what == ".file" ? Item::Kind::file : Item::Kind::header;
      while (!at_end() && (!word(at_).starts_with('.') || unit_.words[at_].adjacent)) ++at_;
    } else if (what == ".section") {
      item.kind = Item::Kind::section;
      skip_brackets("{", "}");
    } else if (what == ".entry" || what == ".func") {
      function(&item);
    } else if (find_space(what) != Space::none) {
      item.kind = Item::Kind::variable;
      variable(&item);
    } else if (what != ";") {
      skip_statement();
    }
    return item;
  }

  // [(results)] name [(parameters)] attributes, then a body or a semicolon.
  void function(Item* item) {
    item->kind = Item::Kind::function;
    while (word(at_).starts_with('.')) ++at_;
    if (word(at_) == "(") skip_brackets("(", ")");
    item->name = word(at_);
    while (!at_end() && word(at_) != "{" && word(at_) != ";") ++at_;
    item->defined = word(at_) == "{";
    if (item->defined)
      skip_brackets("{", "}");
    else
      ++at_;
  }

  // Compilers declare one a statement.
  void variable(Item* item) {
    while (word(at_).starts_with('.')) {
      const std::string_view attribute = word(at_++);
      if (attribute == ".align") ++at_;
      if (attribute == ".attribute") skip_brackets("(", ")");
    }
    item->name = word(at_);
    item->defined = !item->external;
    skip_statement();
  }

  Unit& unit_;
  size_t at_ = 0;
};

Unit read(std::string_view text) {
  Unit unit;
  Lexer lexer(text);
  for (Token word = lexer.next(); !word.text.empty(); word = lexer.next()) unit.words.push_back(word);
  Reader(&unit).read();
  return unit;
}

// .version 7.8: 7.8
double version_of(const Unit& unit) {
  for (const Item& item : unit.items)
    if (unit.words[item.first].text == ".version") {
      std::string number;
      for (size_t i = item.first + 1; i < item.last; ++i) number += unit.words[i].text;
      return std::strtod(number.c_str(), nullptr);
    }
  return 0;
}

constexpr int kFilesOfAModule = 100000;  // numbers of .file, apart for each

void write(const Unit& unit, const Item& item, size_t number, std::string* out) {
  bool is_file = false;
  for (size_t i = item.first; i < item.last; ++i) {
    const Token& word = unit.words[i];
    if (i > item.first && !word.adjacent) *out += ' ';
    const auto renamed = unit.renamed.find(word.text);
    if (is_file)
      *out += std::to_string(std::atoi(std::string(word.text).c_str()) + static_cast<int>(number) * kFilesOfAModule);
    else
      *out += renamed == unit.renamed.end() ? word.text : std::string_view(renamed->second);
    is_file = word.text == ".loc" || word.text == ".file" || word.text == "inlined_at";
    // Instructions and their places are a line each.
    if (word.text == ";" || word.text == "{" || word.text == "}" ||
        (i + 1 < item.last && unit.words[i + 1].text == ".loc"))
      *out += '\n';
  }
  *out += '\n';
}

}  // namespace

std::optional<std::string> link(const std::vector<std::string>& texts, std::string* error) {
  std::vector<Unit> units;
  for (const std::string& text : texts) units.push_back(read(text));
  // Who defines a name for all; and how many modules know it, by whatever meaning.
  std::map<std::string_view, size_t> definitions;
  std::map<std::string_view, std::set<size_t>> known;
  for (size_t i = 0; i < units.size(); ++i)
    for (const Item& item : units[i].items) {
      if (item.name.empty()) continue;
      known[item.name].insert(i);
      if (!item.defined || !(item.visible || item.weak)) continue;
      const auto [first, added] = definitions.try_emplace(item.name, i);
      if (added || item.weak) continue;
      const auto& others = units[first->second].items;
      const bool replaces = std::ranges::any_of(
          others, [&](const Item& other) { return other.name == item.name && other.defined && other.weak; });
      if (!replaces) {
        *error = std::string(item.name) + " is defined twice";
        return std::nullopt;
      }
      first->second = i;
    }
  for (size_t i = 0; i < units.size(); ++i)
    for (const Item& item : units[i].items)
      if (item.defined && !item.name.empty() && !item.visible && !item.weak && known[item.name].size() > 1)
        units[i].renamed[item.name] = std::string(item.name) + "__" + std::to_string(i);

  std::string out;
  const auto newest = static_cast<size_t>(std::ranges::max_element(units, {}, version_of) - units.begin());
  // Variables stand in front of all that uses them, those that have a value elsewhere not at all.
  for (const auto kind :
       {Item::Kind::header, Item::Kind::file, Item::Kind::variable, Item::Kind::function, Item::Kind::other})
    for (size_t i = 0; i < units.size(); ++i)
      for (const Item& item : units[i].items) {
        if (item.kind != kind || (kind == Item::Kind::header && i != newest)) continue;
        const auto definition = definitions.find(item.name);
        const bool elsewhere = definition != definitions.end() && definition->second != i;
        const bool named = !item.name.empty();
        if (named && elsewhere && (item.weak || kind == Item::Kind::variable) && !units[i].renamed.count(item.name))
          continue;
        write(units[i], item, i, &out);
      }
  return out;
}

}  // namespace devtrace::ptx
