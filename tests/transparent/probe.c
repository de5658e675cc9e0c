// Preloaded into both runs of a program: what a process holds when it ends, a file for each process in $TRANSPARENT_PROBE.
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char** environ;

static void copy_lines(FILE* out, const char* path, const char* const* wanted) {
  char line[4096];
  FILE* in = fopen(path, "re");
  if (!in) return;
  while (fgets(line, sizeof line, in))
    for (const char* const* each = wanted; *each; ++each)
      if (!strncmp(line, *each, strlen(*each))) fputs(line, out);
  fclose(in);
}

__attribute__((destructor)) static void print_state(void) {
  const char* folder = getenv("TRANSPARENT_PROBE");
  if (!folder) return;
  char path[4200], target[4096];
  // Before anything of ours is open.
  char files[16384] = "";
  size_t used = 0;
  for (int file = 0; file < 256; ++file) {
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const ssize_t size = readlink(path, target, sizeof target - 1);
    if (size <= 0 || used + (size_t)size + 32 > sizeof files) continue;
    target[size] = 0;
    used += (size_t)snprintf(files + used, sizeof files - used, "file %d %s\n", file, target);
  }
  snprintf(path, sizeof path, "%s/%d", folder, (int)getpid());
  FILE* out = fopen(path, "we");
  if (!out) return;
  static const char* const kStatus[] = {"Name:", "Umask:", "Threads:", "SigBlk:", "SigIgn:", "SigCgt:", "VmHWM:", NULL};
  copy_lines(out, "/proc/self/status", kStatus);
  fputs(files, out);
  for (char** each = environ; *each; ++each)
    if (strncmp(*each, "LD_PRELOAD=", 11)) fprintf(out, "environment %s\n", *each);
  if (getcwd(target, sizeof target)) fprintf(out, "folder %s\n", target);
  fclose(out);
}
