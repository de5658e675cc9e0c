#include "common/rank_table.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace devtrace;

TEST(RankTable, IsSharedByWhoHasTheTicket) {
  const OfferedRankTable offered;
  ASSERT_NE(offered.table(), nullptr);
  RankTable* const opened = open_rank_table(offered.ticket().c_str());
  ASSERT_NE(opened, nullptr);
  EXPECT_NE(opened, offered.table());
  opened->members[3].rank = 17;
  EXPECT_EQ(offered.table()->members[3].rank, 17);
}

TEST(RankTable, IsNotOpenedByAWrongTicketOrWhenItIsGone) {
  std::string ticket;
  {
    const OfferedRankTable offered;
    ticket = offered.ticket();
    EXPECT_EQ(open_rank_table((ticket + "0").c_str()), nullptr);  // another nonce
    EXPECT_EQ(open_rank_table("1"), nullptr);
    EXPECT_EQ(open_rank_table(""), nullptr);
  }
  EXPECT_EQ(open_rank_table(ticket.c_str()), nullptr);
}

TEST(RunningProcess, IsNotAZombieNorAnotherOfThatPid) {
  const RunningProcess own = this_process();
  EXPECT_TRUE(is_running(own));
  EXPECT_FALSE(is_running({own.pid, own.started + 1}));
  const pid_t child = fork();
  if (child == 0) _exit(0);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(start_of_process(child), 0u);
  waitpid(child, nullptr, 0);
}
