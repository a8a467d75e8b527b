// A context that goes on when ranks die, and lets ranks in that come back: engine/context/{healing,survivors,entrance}
// and engine/job/{rank_map,store_events}. Ranks agree by the names of the contexts that they open, and by what the
// job's store holds under such a name. README.md says what is left out, and the bounds.

#ifndef RANKS
#define RANKS 3  // up to 4
#endif
#ifndef CALLS
#define CALLS 2  // of every rank; even ones are admit() and odd ones an operation with a neighbor, so that some end it early
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#ifndef MORTAL
#define MORTAL 15  // the ranks that may die, as a mask
#endif
#ifndef RETURNS
#define RETURNS 1  // up to 2
#endif
#ifndef GONE
#define GONE 0  // or 1: the last rank is gone at first, and the others go on without it
#endif
#define CORES 8  // names of cores that come up; an assertion says if there are more
#define ALONE CORES
#define ALL (85 & ((1 << (2 * (RANKS - GONE))) - 1))

#if RANKS > 3
#define OF_FOUR(text) text
#else
#define OF_FOUR(text)
#endif

// A set of processes: two bits for each rank, 0: it is not in it, else its incarnation + 1.
#define OF(set, q) ((set >> (2 * q)) & 3)
#define ONLY(q, incarnation) ((incarnation + 1) << (2 * q))
#define HAS(mask, q) ((mask >> q) & 1)

// What became of a rank's processes, as a number that only grows: twice the incarnation, + 1 when that one is gone.
byte fate[RANKS];           // as it is
byte board[RANKS];          // as the store knows it
byte seen[RANKS * RANKS];   // as the events say that rank r has read: seen[r * RANKS + q]
#ifdef BROKEN_INCARNATION
#define IS_GONE(number, member) (number == 2 * member - 1)
#else
#define IS_GONE(number, member) (number >= 2 * member - 1)
#endif
#define ALIVE(q) (fate[q] % 2 == 0)
#define INCARNATION(q) (fate[q] / 2)
#define SEEN(r, q) seen[r * RANKS + q]

// The cores that were opened, each under its name, and what its ranks have done there, as masks of ranks.
typedef Core {
  bool is_used;
  byte entrances;
  byte set;
  byte entered;
  byte met;
  byte finished;  // the hand-over
  byte needs;     // the state
  byte closed;
  byte told;      // a failure: 1 + the rank that is gone, or 1 + NOBODY
  byte resumed;   // the most calls that one of them has ended
  byte wanted;    // by the calls of admit(): somebody waits
  byte begun[RANKS];     // calls
  byte entrance;         // in the store: who is in the core after it
  byte entrance_resumed;
  bool is_adopted;
};
Core core[CORES + 1];  // the last one stands for those of ranks that are alone
#define ALL_IN(mask, c) \
  (((OF(core[c].set, 0) == 0) || HAS(mask, 0)) && ((OF(core[c].set, 1) == 0) || HAS(mask, 1)) && \
   ((OF(core[c].set, 2) == 0) || HAS(mask, 2)) && ((OF(core[c].set, 3) == 0) || HAS(mask, 3)))

byte waiting[RANKS];             // whose key says that it waits: 1 + the incarnation
byte invited[RANKS * 3];         // by rank and incarnation: 1 + the core that the entrance is to leave
byte ended_in[RANKS * CALLS];    // 1 + the core in which the rank's present process has ended the call well
byte next_call[RANKS];
bool has_state[RANKS];
byte posted[RANKS];               // an entrance that the rank has sent to the store
byte posted_to[RANKS];            // 1 + the core that it is to leave
bool is_killed[RANKS];
bool has_left[RANKS];
byte deaths;
byte returns;

#define NOBODY RANKS
#define NONE 255

#ifdef BROKEN_EPOCH
#define SAME_EPOCH(a, b) true
#else
#define SAME_EPOCH(a, b) (a == b)
#endif

// The core of that name.
inline find(entrances_, set_, found) {
  d_step {
    found = 0;
    do
    :: found < CORES && core[found].is_used &&
       !(SAME_EPOCH(core[found].entrances, entrances_) && core[found].set == set_) -> found++
    :: else -> break
    od;
    assert(found < CORES);
    if
    :: !core[found].is_used ->
      core[found].is_used = true;
      core[found].entrances = entrances_;
      core[found].set = set_
    :: else
    fi;
    // Two ranks never disagree on the members of an epoch, and nobody meets the past of another process.
    assert(core[found].entrances == entrances_ && core[found].set == set_)
  }
}

// After an answer of the store, its events before that have been read.
inline read_events(r) {
  d_step {
    i = 0;
    do
    :: i < RANKS -> SEEN(r, i) = (i == r -> SEEN(r, i) : board[i]); i++
    :: else -> break
    od;
    i = 0
  }
}

#define ANY_RETURNED(r) (SEEN(r, 0) > 1 || SEEN(r, 1) > 1 || SEEN(r, 2) > 1 || SEEN(r, (RANKS - 1)) > 1)

// By the end of the process, an event, or a closed connection.
#define MAY_SEEM_GONE(c, q) \
  (OF(core[c].set, q) != 0 && (IS_GONE(fate[q], OF(core[c].set, q)) || HAS(core[c].closed, q)))
#define IS_KNOWN_GONE(r, c, q) (OF(core[c].set, q) != 0 && IS_GONE(SEEN(r, q), OF(core[c].set, q)))

// Somebody of the core is found to be gone, or a failure is told.
#define OR_FAILS(c, to) \
  :: MAY_SEEM_GONE(c, 0) && me != 0 -> why = 0; goto to \
  :: MAY_SEEM_GONE(c, 1) && me != 1 -> why = 1; goto to \
  :: MAY_SEEM_GONE(c, 2) && me != 2 -> why = 2; goto to \
  OF_FOUR(:: MAY_SEEM_GONE(c, 3) && me != 3 -> why = 3; goto to) \
  :: core[c].told != 0 -> why = core[c].told - 1; goto to

// In a call, a departure does not matter where what the rank had to send is there.
#define MAY_LACK(q) \
  (q != me && (has_left[q] || HAS(core[here].closed, q) -> !HAS_BEGUN(here, q) && MAY_SEEM_GONE(here, q) : \
               MAY_SEEM_GONE(here, q)))
#define OR_LACKS(to) \
  :: MAY_LACK(0) -> why = 0; goto to \
  :: MAY_LACK(1) -> why = 1; goto to \
  :: MAY_LACK(2) -> why = 2; goto to \
  OF_FOUR(:: MAY_LACK(3) -> why = 3; goto to) \
  :: core[here].told != 0 -> why = core[here].told - 1; goto to

inline tell(c) {
  d_step {
    if
    :: core[c].told == 0 -> core[c].told = 1 + why
    :: else
    fi
  }
}

inline close_but(mask) {
  d_step {
    i = 0;
    do
    :: i < CORES ->
      if
      :: ((open >> i) & 1) && !((mask >> i) & 1) -> core[i].closed = core[i].closed | (1 << me)
      :: else
      fi;
      i++
    :: else -> break
    od;
    open = open & (mask);
    i = 0
  }
}

// At any time, new events may have arrived or not.
inline read_some_events(r) {
  if
  :: skip
  :: read_events(r)
  fi
}

// Ranks that have come back and wait, by what this rank has read: those that are not in the core.
inline find_waiting(c, set_) {
  d_step {
    set_ = 0;
    i = 0;
    do
    :: i < RANKS ->
      if
      :: i != me && OF(core[c].set, i) == 0 && SEEN(me, i) > 1 && SEEN(me, i) % 2 == 0 &&
         waiting[i] == SEEN(me, i) / 2 + 1 -> set_ = set_ | ONLY(i, (SEEN(me, i) / 2))
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  }
}

// Whoever knows of the entrance invites.
inline invite() {
  d_step {
    i = 0;
    do
    :: i < RANKS ->
      if
      :: OF(entrance, i) != 0 && OF(core[from].set, i) == 0 && invited[i * 3 + OF(entrance, i) - 1] == 0 ->
        invited[i * 3 + OF(entrance, i) - 1] = 1 + from
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  }
}

#define LOWEST(c) \
  (OF(core[c].set, 0) != 0 -> 0 : (OF(core[c].set, 1) != 0 -> 1 : (OF(core[c].set, 2) != 0 -> 2 : 3)))
#define AFTER(q, k) ((q + k) % RANKS)
#define NEIGHBOR(c) \
  (OF(core[c].set, AFTER(me, 1)) != 0 -> AFTER(me, 1) : \
   (OF(core[c].set, AFTER(me, 2)) != 0 -> AFTER(me, 2) : (OF(core[c].set, AFTER(me, 3)) != 0 -> AFTER(me, 3) : me)))
// Who gives the state, to those that need it.
#define CAN_GIVE(c, q) (OF(core[c].set, q) != 0 && !HAS(core[c].needs, q))
#define GIVER(c) \
  (CAN_GIVE(c, 0) -> 0 : (CAN_GIVE(c, 1) -> 1 : (CAN_GIVE(c, 2) -> 2 : (CAN_GIVE(c, 3) -> 3 : NOBODY))))
#define HAS_BEGUN(c, q) (OF(core[c].set, q) == 0 || core[c].begun[q % RANKS] > next_call[me])

#ifdef BROKEN_LOOK
#define LOOKS (why == NONE)
#else
#define LOOKS true
#endif
#ifdef BROKEN_INVITE
#define INVITES (LOWEST(from) == me)
#else
#define INVITES true
#endif

// As a rank knows that waits outside: one is there as at first, or was let in.
#define MAY_BE_INSIDE(q) \
  (q < RANKS && q != me && \
   (board[q % RANKS] == 0 || \
    (board[q % RANKS] % 2 == 0 && invited[(q % RANKS) * 3 + board[q % RANKS] / 2] != 0)))
#define IS_ANYBODY_INSIDE (MAY_BE_INSIDE(0) || MAY_BE_INSIDE(1) || MAY_BE_INSIDE(2) || MAY_BE_INSIDE(3))

// Says goodbye, which all hear at once.
inline leave() {
  d_step {
    fate[me]++;
    board[me] = fate[me];
    has_left[me] = true;
    i = 0;
    do
    :: i < RANKS -> SEEN(i, me) = (i == me -> 0 : fate[me]); i++
    :: else -> break
    od;
    i = 0
  }
}

// Keeps rank q of the present core, unless it is known to be gone. A death may be known before its event arrives.
inline keep(q) {
  if
  :: OF(core[present].set, q) == 0 || why == q
  :: OF(core[present].set, q) != 0 && why != q && !IS_KNOWN_GONE(me, present, q) ->
    left = left | (core[present].set & (3 << (2 * q)))
  :: OF(core[present].set, q) != 0 && why != q && q != me &&
     (IS_KNOWN_GONE(me, present, q) || MAY_SEEM_GONE(present, q))
  fi
}

// Those of the entrance that are not in the present core and not gone.
inline add_missing() {
  d_step {
    i = 0;
    do
    :: i < RANKS ->
      if
      :: OF(entrance, i) != 0 && OF(core[present].set, i) == 0 && i != me && !IS_GONE(SEEN(me, i), OF(entrance, i)) ->
        left = left | (entrance & (3 << (2 * i)))
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  }
}

inline add_those_there() {
  d_step {
    i = 0;
    do
    :: i < RANKS ->
      if
      :: OF(core[here].set, i) != 0 && !IS_KNOWN_GONE(me, here, i) -> left = left | (core[here].set & (3 << (2 * i)))
      :: else
      fi;
      i++
    :: else -> break
    od;
    i = 0
  }
}

// What one rank has ended in a core, no other that is there ends in another core.
inline check_once() {
  d_step {
    i = 0;
    do
    :: i < RANKS ->
      assert(i == me || !ALIVE(i) || ended_in[i * CALLS + next_call[me]] == 0 ||
             ended_in[i * CALLS + next_call[me]] == 1 + here);
      i++
    :: else -> break
    od;
    i = 0
  }
}

// Of two cores of an epoch that were adopted, one is what is left of the other.
inline check_chain() {
  d_step {
    i = 0;
    do
    :: i < CORES ->
      assert(!core[i].is_adopted || core[i].entrances != core[next].entrances ||
             (core[i].set & core[next].set) == core[i].set || (core[i].set & core[next].set) == core[next].set);
      i++
    :: else -> break
    od;
    i = 0
  }
}

proctype rank(byte me) {
  byte here;     // the core that was adopted
  byte from;     // that it is about to leave
  byte present;  // the last one of those tried
  byte next;
  short open;      // cores, as a mask
  byte entrance;   // once it was seen
  byte left;
  byte why;
  byte done;       // calls
  byte resumed;
  bool wants;
  bool is_new_call;
  bool found;
  byte i;
  bool is_outside;

  do
  :: {
    atomic {
      why = NONE;
      is_new_call = true;
      is_outside = INCARNATION(me) > 0;
      if
      :: is_outside -> read_events(me); waiting[me] = 1 + INCARNATION(me); goto outside
      :: !is_outside -> has_state[me] = true; find(0, ALL, here); open = 1 << here
      fi
    };

call:
    atomic {
      if
      :: next_call[me] < CALLS && next_call[me] < resumed -> goto ended
      :: else
      fi;
      if
      :: is_new_call && next_call[me] < CALLS && next_call[me] % 2 == 0 ->
        read_some_events(me);
        find_waiting(here, left);
        wants = left != 0;
        left = 0
      :: else
      fi;
      is_new_call = false;
      core[here].begun[me] = next_call[me] + 1;
      core[here].wanted = core[here].wanted | (wants << (next_call[me] / 2));
#ifdef BROKEN_ASK
      if
      :: wants && LOWEST(here) == me -> goto ended_well
      :: else
      fi
#endif
    };
    atomic {
      if
      :: next_call[me] == CALLS -> goto last
      :: next_call[me] < CALLS && next_call[me] % 2 == 0 && HAS_BEGUN(here, 0) && HAS_BEGUN(here, 1) && HAS_BEGUN(here, 2) &&
         HAS_BEGUN(here, 3) -> goto ended_well
      :: next_call[me] < CALLS && next_call[me] % 2 == 1 && core[here].begun[NEIGHBOR(here)] > next_call[me] -> goto ended_well
      OR_LACKS(failed_here)
      fi
    };

// A call that no rank ends, so that all are there for those that need them.
last:
end_of_calls:
    atomic {
      if
      OR_LACKS(failed_here)
      fi
    };

ended_well:
    atomic {
      check_once();
      ended_in[me * CALLS + next_call[me]] = 1 + here;
      close_but((1 << here));
      if
      :: next_call[me] % 2 == 0 && ((core[here].wanted >> (next_call[me] / 2)) & 1) ->
        done = next_call[me] + 1;
        goto let_in
      :: else
      fi
    };
ended:
    atomic {
      done = (next_call[me] + 1 > done -> next_call[me] + 1 : done);
      next_call[me]++;
      is_new_call = true;
      wants = false;
      goto call
    };

let_in:
    atomic {
      if
      :: LOWEST(here) == me ->
        find_waiting(here, left);
        add_those_there();
        core[here].entrance_resumed = next_call[me] + 1;
        posted[me] = left;
        posted_to[me] = 1 + here;
        left = 0
      :: else
      fi
    };
    atomic {
      if
      :: core[here].entrance != 0 -> read_events(me); goto heal
      OR_FAILS(here, failed_here)
      fi
    };

failed_here:
    atomic {
      tell(here);
heal:
      from = here;
      present = here;
again:
      read_some_events(me);
      if
#ifdef BROKEN_EVENTS
      :: entrance == 0 && LOOKS && ANY_RETURNED(me) ->
#else
      :: entrance == 0 && LOOKS ->
#endif
        read_events(me);
        entrance = core[from].entrance;
        found = entrance != 0;
        if
        :: found && INVITES -> invite()
        :: else
        fi
      :: else
      fi;
go_on:
      // Nobody takes a rank for gone that is there, and a failure names one that is gone.
      assert(why != me);
      left = (present == ALONE -> ONLY(me, INCARNATION(me)) : 0);
      keep(0); keep(1); keep(2);
      OF_FOUR(keep(3);)
      assert(found || left != core[present].set);
      if
      :: found -> add_missing(); find(core[from].entrances + 1, left, next)
      :: !found -> find(core[present].entrances, left, next)
      fi;
#ifdef BROKEN_CLOSE
      close_but(0);
#endif
      open = open | (1 << next);
      core[next].entered = core[next].entered | (1 << me);
      read_events(me);
      left = 0; found = false; why = NONE
    };
    atomic {
      if
      :: ALL_IN(core[next].entered, next) -> goto meet
#ifndef BROKEN_LOOK_AGAIN
      :: entrance == 0 && LOOKS && core[from].entrance != 0 -> read_events(me); why = NOBODY; goto failed
#endif
      OR_FAILS(next, failed)
      fi
    };
meet:
    atomic {
      core[next].met = core[next].met | (1 << me);
      core[next].needs = core[next].needs | (!has_state[me] << me);
      resumed = (entrance != 0 && core[from].entrance_resumed > done -> core[from].entrance_resumed : done);
      core[next].resumed = (resumed > core[next].resumed -> resumed : core[next].resumed)
    };
    atomic {
      if
      :: ALL_IN(core[next].met, next)
      OR_FAILS(next, failed)
      fi;
#ifndef BROKEN_RESUMED
      resumed = core[next].resumed;
#endif
      if
      :: core[next].needs == 0 -> goto adopt
      :: core[next].needs != 0 && GIVER(next) == NOBODY -> leave(); goto over
      :: else
      fi
    };
    atomic {
      if
      :: has_state[me] ->
        // It is in admit() and has the state at hand, as it is after that call.
        assert(next_call[me] % 2 == 0 && next_call[me] + 1 == core[from].entrance_resumed)
      :: !has_state[me] && HAS(core[next].finished, GIVER(next)) -> has_state[me] = true
      OR_FAILS(next, failed)
      fi;
      core[next].finished = core[next].finished | (1 << me)
    };
    atomic {
#ifndef BROKEN_FINISH
      if
      :: ALL_IN(core[next].finished, next) -> goto adopt
      OR_FAILS(next, failed)
      fi
#else
      goto adopt
#endif
    };
failed:
    atomic {
#ifndef BROKEN_TELL
      tell(next);
#endif
      present = next;
      goto again
    };
adopt:
    atomic {
      check_chain();
      core[next].is_adopted = true;
      close_but(((1 << next) | (1 << from)));
      here = next;
      done = (entrance != 0 && core[from].entrance_resumed > done -> core[from].entrance_resumed : done);
      if
      :: is_outside -> is_outside = false; next_call[me] = core[from].entrance_resumed
      :: !is_outside && done > next_call[me] -> next_call[me]++; is_new_call = true; wants = false
      :: else
      fi;
      entrance = 0; from = 0; present = 0; next = 0;
      goto call
    };

outside:
end_outside:
    atomic {
      if
      :: invited[me * 3 + INCARNATION(me)] != 0 ->
        from = invited[me * 3 + INCARNATION(me)] - 1;
        entrance = core[from].entrance;
        present = ALONE;
        found = true;
        goto go_on
      :: !IS_ANYBODY_INSIDE -> leave()
      fi
    };
over:
    skip
    } unless { d_step {
      is_killed[me] ->
      here = 0; from = 0; present = 0; next = 0; open = 0; entrance = 0; left = 0; done = 0; resumed = 0;
      wants = false; found = false; i = 0; is_outside = false; is_new_call = false; why = 0
    } };
end:
    (is_killed[me] && ALIVE(me)) -> is_killed[me] = false
  od
}

// Kills the rank and starts it again. What it has sent to the store arrives, and so do events.
proctype fates(byte me) {
  byte i;
end:
  do
  :: d_step { deaths < DEATHS && HAS(MORTAL, me) && ALIVE(me) && !is_killed[me] -> deaths++; fate[me]++; is_killed[me] = true }
  :: deaths < DEATHS -> deaths = DEATHS
  // It arrives before the store knows of the sender's end, or is lost with the sender.
  :: d_step { posted_to[me] != 0 -> core[posted_to[me] - 1].entrance = posted[me]; posted[me] = 0; posted_to[me] = 0 }
  :: d_step { posted_to[me] != 0 && !ALIVE(me) -> posted[me] = 0; posted_to[me] = 0 }
  :: posted_to[me] == 0 && board[me] != fate[me] -> board[me] = fate[me]
  :: d_step {
      returns < RETURNS && is_killed[me] && !ALIVE(me) && board[me] == fate[me] ->
      returns++;
      fate[me]++;
      board[me] = fate[me];
      has_state[me] = false;
      next_call[me] = 0;
      i = 0;
      do
      :: i < CALLS -> ended_in[me * CALLS + i] = 0; i++
      :: else -> break
      od;
      i = 0
    }
  od
}

init {
  atomic {
#if GONE > 0
    fate[RANKS - 1] = 1;
    board[RANKS - 1] = 1;
    SEEN(0, (RANKS - 1)) = 1;
    SEEN(1, (RANKS - 1)) = 1;
    SEEN((RANKS - 2), (RANKS - 1)) = 1;
    is_killed[RANKS - 1] = true;
#endif
    run rank(0); run rank(1); run rank(2);
    OF_FOUR(run rank(3);)
    run fates(0); run fates(1); run fates(2);
    OF_FOUR(run fates(3))
  }
}
