// Which files are read in another's place: the table that DEVTRACE_OVERLAY names, read once in each process.
//
// Nothing here takes a lock, calls malloc or keeps a descriptor: a program may ask from a signal's handler, and between
// vfork and exec.
#pragma once

#include <sys/stat.h>

namespace devtrace::fix::overlay {

struct ReplacedFile {
  const char* original = nullptr;  // as the table names it
  const char* replacement = nullptr;
  dev_t device = 0;
  ino_t inode = 0;
  mutable bool failure_told = false;  // that the replacement cannot be opened; several threads may come
};

// Reads the table unless that is done. While another thread reads it, or this one was interrupted reading it, there is
// none.
void read_table();
// In a fork that DEVTRACE_OVERLAY names another table for: the only thread.
void read_table_again();

// The row whose original is this file; null: none.
const ReplacedFile* replacement_of(const struct stat& file);

// Whether the path names byte code of an original: <stem>.<anything>.pyc, in whatever folder. That of `<anything>` is
// the interpreter's tag, with more behind it where pytest wrote it.
bool is_byte_code(const char* path);
// The same for a file that is to become one: with a number behind its name, as it is called until it is whole.
bool becomes_byte_code(const char* path);

}  // namespace devtrace::fix::overlay
