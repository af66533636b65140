// expect: stage_id.*microbatch_id
#include "cleave/core/ids.hpp"

void send(cleave::stage_id to, cleave::microbatch_id batch);

void mistake(cleave::stage_id to) { send(to, to); }
