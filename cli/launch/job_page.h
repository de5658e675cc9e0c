// One page of all ranks of a job.
#pragma once

#include "common/rank_table.h"

namespace devtrace::cli {

// When the job has ended: beside the first of their logs, and said on stderr. Nothing where they are not several, or
// none has a finding.
void write_job_page(const RankTable& ranks);

}  // namespace devtrace::cli
