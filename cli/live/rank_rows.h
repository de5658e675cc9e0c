// Ranks of a job that are not where the others are, from the table that the command which started them shares with
// them.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/rank_table.h"

namespace devtrace::cli::live {

// The table of the process's job; null: nobody offers one.
const RankTable* rank_table_of(pid_t process);

// For each communicator whose ranks wait for one another a row on who waits in what, and one for each that is missing.
// Ranks come within microseconds of each other: what is seen twice is meant.
std::vector<std::string> rank_rows(const RankTable& table);

}  // namespace devtrace::cli::live
