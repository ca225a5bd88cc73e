// Turns of warps and of the lanes within one, between ptx_launch.c and ptx_schedule.c.
#ifndef PTXSIM_PTX_SCHEDULE_H
#define PTXSIM_PTX_SCHEDULE_H

#include "ptx_machine.h"

// Runs up to `turn` instructions; ends earlier where every lane waits or has exited.
void ptx_warp_run(ptx_warp *warp, uint64_t turn);
// Lets warps past each barrier that is complete.
void ptx_barriers_check(ptx_launch *launch);
// Called when no warp can run. Reports the barrier that cannot complete and lets its warps past;
// false: all have exited.
bool ptx_barriers_release(ptx_launch *launch);

#endif
