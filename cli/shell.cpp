#include "cli/shell.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "common/format.h"
#include "common/version.h"

namespace devtrace::cli {
namespace {

struct Flag {
  std::vector<std::string> names;  // "--log-path", "-o"
  std::string value;               // "FILE"; empty: it takes none
  std::string text;
};

std::vector<Flag> flags_of(const CLI::App& app) {
  std::vector<Flag> flags;
  for (const CLI::Option* each : app.get_options()) {
    Flag flag;
    for (const std::string& name : each->get_lnames()) flag.names.push_back("--" + name);
    for (const std::string& name : each->get_snames()) flag.names.push_back("-" + name);
    if (flag.names.empty()) continue;  // a positional
    const std::string type = each->get_type_name();
    if (each->get_items_expected_max() > 0) flag.value = type.substr(0, type.find(':'));
    flag.text = each->get_description();
    flags.push_back(std::move(flag));
  }
  return flags;
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// One word of a shell's, whatever stands in it.
std::string shell_word(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c == '\n' ? ' ' : c);
  return out + "'";
}

// With a backslash before each of those characters.
std::string escaped(std::string_view text, std::string_view characters) {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) != characters.npos) out += '\\';
    out += c;
  }
  return out;
}

std::string words_of(const CLI::App& app) {
  std::string words;
  for (const CLI::App* each : subcommands_of(app)) words += each->get_name() + ' ';
  for (const Flag& each : flags_of(app))
    for (const std::string& name : each.names) words += name + ' ';
  return words;
}

std::string for_bash(const CLI::App& app) {
  std::string cases;
  for (const CLI::App* each : subcommands_of(app))
    cases += fmt::format("    {}) words={} ;;\n", each->get_name(), shell_word(words_of(*each)));
  return fmt::format(
      R"(# devtrace --completion bash
_devtrace() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words={} i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
    --)
      if declare -F _command_offset > /dev/null; then _command_offset $((i + 1)); else COMPREPLY=($(compgen -f -- "$current")); fi
      return
      ;;
    esac
  done
  case ${{COMP_WORDS[1]}} in
{}  esac
  ((COMP_CWORD == 1)) && words={}
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ $current == -* || $COMP_CWORD -eq 1 ]] || COMPREPLY+=($(compgen -f -- "$current"))
}}
complete -o filenames -F _devtrace devtrace
)",
      shell_word(words_of(app)), cases, shell_word(words_of(app)));
}

std::string for_zsh(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* each : subcommands_of(app)) {
    commands += fmt::format("    {}\n", shell_word(each->get_name() + ':' + each->get_description()));
    cases += fmt::format("    {})\n      _arguments -S", each->get_name());
    for (const Flag& flag : flags_of(*each))
      for (const std::string& name : flag.names) {
        std::string spec = name + (flag.value.empty() ? "" : name.starts_with("--") ? "=" : "+");
        spec += '[' + escaped(flag.text, "\\:[]") + ']';
        if (!flag.value.empty()) spec += ':' + escaped(flag.value, "\\:[]") + ":_files";
        cases += " \\\n        " + shell_word(spec);
      }
    cases += " \\\n        '*:file or word:_files'\n      ;;\n";
  }
  return fmt::format(
      "#compdef devtrace\n# devtrace --completion zsh\n_devtrace() {{\n  local -a commands=(\n{}  )\n"
      "  if ((CURRENT == 2)); then\n    _describe command commands\n    return\n  fi\n  local command=$words[2]\n"
      "  shift words\n  ((CURRENT--))\n  case $command in\n{}  esac\n}}\ncompdef _devtrace devtrace 2> /dev/null || "
      "_devtrace \"$@\"\n",
      commands, cases);
}

std::string for_fish(const CLI::App& app) {
  std::string script = "# devtrace --completion fish\n";
  for (const CLI::App* each : subcommands_of(app)) {
    script += fmt::format("complete -c devtrace -n __fish_use_subcommand -f -a {} -d {}\n", each->get_name(),
                          shell_word(escaped(each->get_description(), "\\")));
    for (const Flag& flag : flags_of(*each)) {
      script += fmt::format("complete -c devtrace -n '__fish_seen_subcommand_from {}'", each->get_name());
      for (const std::string& name : flag.names)
        script += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      script += fmt::format("{} -d {}\n", flag.value.empty() ? "" : " -r", shell_word(escaped(flag.text, "\\")));
    }
  }
  return script;
}

// A line of roff that holds the text alone.
std::string roff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

// Paragraphs as they stand: they hold lines of commands and tables.
std::string as_it_stands(const std::string& text) {
  return text.empty() ? "" : ".PP\n.nf\n" + roff(text) + "\n.fi\n";
}

std::string options_in_roff(const CLI::App& app) {
  std::string out;
  for (const Flag& flag : flags_of(app)) {
    out += ".TP\n";
    for (size_t i = 0; i < flag.names.size(); ++i)
      out += fmt::format("{}\\fB{}\\fR", i ? ", " : "", roff(flag.names[i]));
    if (!flag.value.empty()) out += " \\fI" + roff(flag.value) + "\\fR";
    out += '\n' + roff(flag.text) + '\n';
  }
  return out;
}

}  // namespace

std::string completion(const CLI::App& app, const std::string& shell) {
  return shell == "zsh" ? for_zsh(app) : shell == "fish" ? for_fish(app) : for_bash(app);
}

std::string man_page(const CLI::App& app) {
  const std::string about = app.get_description();
  std::string page = fmt::format(
      ".TH DEVTRACE 1 \"\" \"devtrace {}\" \"User Commands\"\n.SH NAME\ndevtrace \\- {}\n.SH SYNOPSIS\n"
      ".B devtrace\n.I command\n[options] [\\-\\- program ...]\n.SH DESCRIPTION\n{}\n",
      kVersion, roff(about.substr(about.find(": ") + 2, about.find('\n') - about.find(": ") - 2)), roff(about));
  page += ".SH OPTIONS\n" + options_in_roff(app) + ".SH COMMANDS\n";
  for (const CLI::App* each : subcommands_of(app)) {
    page += fmt::format(".SS devtrace {}\n{}.\n", each->get_name(), roff(each->get_description()));
    page += options_in_roff(*each) + as_it_stands(each->get_footer());
  }
  return page + ".SH EXAMPLES\n" + as_it_stands(app.get_footer());
}

}  // namespace devtrace::cli
