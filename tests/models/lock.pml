// The lock of verbs/lock/lock.h: clients that take, release and inherit one word by
// compare-and-swap, over paths that fail. Names and states are those of lock.cc. README.md says
// what is left out, and the bounds.
//
// The liveness of the last property needs weak fairness: pan -a -f.

#ifndef CLIENTS
#define CLIENTS 2
#endif
#ifndef WANTS
#define WANTS 2  // how often each client takes the lock
#endif
#ifndef CUTS
#define CUTS 1  // paths that fail with a swap under way
#endif
#ifndef DEADLINES
#define DEADLINES 1
#endif
#ifndef DEATHS
#define DEATHS 1  // 0 or 1: the last client may die
#endif

// Each client is a rank of its own, or two clients are two locks of one rank.
#ifdef ONE_RANK
#define RANK(client) (client < 2 -> 1 : client)
#else
#define RANK(client) (client + 1)
#endif
#define FREE 0

// Locks of one rank that are at work at once differ in their attempts.
#ifdef BROKEN_ATTEMPT
#define ATTEMPT(client) 0
#else
#define ATTEMPT(client) client
#endif

#ifdef BROKEN_EPOCH
#define NEXT(epoch) epoch
#else
#define NEXT(epoch) (epoch + 1)
#endif

// The last client is known to be dead.
#ifdef BROKEN_ALIVE
#define KNOWN_DEAD (self != CLIENTS - 1)
#else
#define KNOWN_DEAD known_dead
#endif

mtype = { idle, taking, held, releasing, withdrawing };

typedef Word {
  byte holder;
  byte attempt;
  byte epoch;
};
#define SAME(a, b) (a.holder == b.holder && a.attempt == b.attempt && a.epoch == b.epoch)
#define COPY(from, to) to.holder = from.holder; to.attempt = from.attempt; to.epoch = from.epoch
#define CLEAR(a) a.holder = FREE; a.attempt = 0; a.epoch = 0

Word word;

// Swaps whose path failed or whose client died. Each may still reach the word once.
#if CUTS + DEATHS > 0
Word late_expected[CUTS + DEATHS];
Word late_desired[CUTS + DEATHS];
bool late[CUTS + DEATHS];
#endif
hidden byte place;
byte cuts;
byte deadlines;

mtype state[CLIENTS];
bool inside[CLIENTS];
bool died;        // the last client is dead
bool known_dead;  // and the others know
byte ended;

// Words never come back: each has a larger age than all words before it.
#define AGE(a) (2 * a.epoch + (a.holder == FREE -> 0 : 1))

// One compare-and-swap reaches the word.
inline land(expected, desired) {
  if
  :: SAME(word, expected) ->
    if
    :: !SAME(expected, desired) ->
      assert(AGE(desired) > AGE(word));
      // A swap takes the lock only for a client that still waits for its answer, or died.
      if
      :: desired.holder != FREE && !(died && desired.holder == RANK((CLIENTS - 1))) ->
        assert(state[desired.attempt] == taking || state[desired.attempt] == withdrawing)
      :: else
      fi;
      COPY(desired, word)
    :: else
    fi
  :: else
  fi
}

#if CUTS + DEATHS > 0
inline leave_late(expected, desired) {
#if CUTS + DEATHS > 1
  place = (late[0] -> 1 : 0);
#else
  place = 0;
#endif
  assert(!late[place]);
  late[place] = true;
  COPY(expected, late_expected[place]);
  COPY(desired, late_desired[place]);
  place = 0
}

inline forget(which) {
  late[which] = false;
  CLEAR(late_expected[which]);
  CLEAR(late_desired[which])
}
#endif

proctype client(byte self) {
  byte wants = WANTS;
  bool posted;    // the swap is under way
  bool answered;  // it has reached the word, and its answer is under way
  bool in_doubt;
  bool is_done;
  Word seen;
  Word expected;
  Word desired;
  Word found;

  do
  :: d_step { state[self] == idle && wants > 0 -> wants--; state[self] = taking }
  :: state[self] == idle && wants == 0 -> break
  :: d_step { state[self] == held -> inside[self] = false; state[self] = releasing }

  // advance()
  :: d_step {
      state[self] != idle && state[self] != held && !posted ->
      if
      :: in_doubt
      :: else ->
        if
        :: state[self] == releasing ->
          COPY(desired, expected);
          desired.holder = FREE; desired.attempt = 0; desired.epoch = NEXT(expected.epoch)
        :: state[self] != releasing && seen.holder == FREE ->
          COPY(seen, expected);
          desired.holder = RANK(self); desired.attempt = ATTEMPT(self);
          desired.epoch = expected.epoch
#ifndef BROKEN_DEAD
        :: state[self] != releasing && seen.holder == RANK((CLIENTS - 1)) && KNOWN_DEAD ->
          COPY(seen, expected);
          desired.holder = RANK(self); desired.attempt = ATTEMPT(self);
          desired.epoch = NEXT(expected.epoch)
#endif
        :: else -> COPY(seen, expected); COPY(seen, desired)
        fi
      fi;
      posted = true
    }

  // The swap reaches the word.
  :: d_step {
      posted && !answered -> COPY(word, found);
      land(expected, desired);
      answered = true
    }

  // completed() with the answer
  :: d_step {
      posted && answered ->
      is_done = !SAME(expected, desired) && (SAME(found, expected) || SAME(found, desired));
      if
      :: is_done -> COPY(desired, seen)
      :: else -> COPY(found, seen)
      fi;
      if
      :: state[self] == releasing ->
#ifndef BROKEN_ALIVE
        // Nobody takes a lock over from a holder that lives.
        assert(is_done || in_doubt);
#endif
        state[self] = idle
      :: state[self] == withdrawing -> state[self] = (is_done -> releasing : idle)
      :: state[self] == taking && is_done ->
        state[self] = held;
        inside[self] = true;
        // At most one holder.
        assert(inside[0] + inside[1]
#if CLIENTS > 2
               + inside[2]
#endif
               == 1)
      :: else
      fi;
      CLEAR(found);
      if
      :: state[self] != held && state[self] != releasing -> CLEAR(expected); CLEAR(desired)
      :: else -> CLEAR(expected)
      fi;
      posted = false; answered = false; in_doubt = false; is_done = false
    }

#if CUTS > 0
  // completed() with an error: the path failed. The swap may have reached the word, may reach it
  // late, or both.
  :: d_step {
      posted && cuts < CUTS ->
      cuts++;
      leave_late(expected, desired);
#ifdef BROKEN_DOUBT
      in_doubt = false;
#else
      in_doubt = !SAME(expected, desired);
#endif
      if
      :: state[self] == withdrawing && !in_doubt -> state[self] = idle
      :: else
      fi;
      CLEAR(found);
      posted = false; answered = false
    }
#endif

#if DEADLINES > 0
  :: d_step {
      state[self] == taking && deadlines < DEADLINES ->
      deadlines++;
#ifdef BROKEN_WITHDRAW
      state[self] = idle; posted = false; answered = false; in_doubt = false
#else
      state[self] = (posted || in_doubt -> withdrawing : idle)
#endif
    }
#endif

#if DEATHS > 0
  :: atomic {
      self == CLIENTS - 1 && state[self] != idle ->
      died = true;
      inside[self] = false;
      if
      :: posted && !answered -> leave_late(expected, desired)
      :: else
      fi;
      break
    }
#endif
  od;
  ended++
}

#if CUTS + DEATHS > 0
// What was under way when a path failed or a client died.
proctype network() {
end:
  do
  :: d_step { late[0] -> land(late_expected[0], late_desired[0]); forget(0) }
  :: d_step { late[0] -> forget(0) }
#if CUTS + DEATHS > 1
  :: d_step { late[1] -> land(late_expected[1], late_desired[1]); forget(1) }
  :: d_step { late[1] -> forget(1) }
#endif
  od
}
#endif

// Survivors learn at any later time that a rank is dead.
proctype membership() {
end:
  d_step { died -> known_dead = true }
}

init {
  byte i;
  atomic {
    do
    :: i < CLIENTS -> state[i] = idle; i++
    :: i == CLIENTS -> break
    od;
    i = 0;
#if CUTS + DEATHS > 0
    run network();
#endif
    run membership();
    do
    :: i < CLIENTS -> run client(i); i++
    :: i == CLIENTS -> break
    od
  }
}

// Nobody waits for ever.
ltl everyone_ends { <> (ended == CLIENTS) }
