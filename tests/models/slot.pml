// The slot of a window: one writer, which reaches the slot's memory by one-sided works over two
// rails that may fail, and one reader, which owns that memory. README.md describes the protocol,
// what is left out, and the bounds.
//
// A message is a number from 1 to MESSAGES. Memory holds, in place of bytes, the number of the
// message whose bytes they are; what these bytes say is in the arrays *_of. The amount of message
// k is 2^k, and that of the slot's first content is 1. So a value, in binary, shows which
// amounts it consists of.

#ifndef MESSAGES
#define MESSAGES 4
#endif
#ifndef VISITS
#define VISITS 2
#endif
#ifndef FAILURES
#define FAILURES 1
#endif
#ifdef BROKEN_BUFFERS
#define BUFFERS 3
#else
#define BUFFERS 4
#endif
#define RAILS 2
#define NONE BUFFERS  // no buffer

// Works of a message, in the order in which they are posted.
#ifdef BROKEN_ORDER
#define DONE_WORK 1
#define FIRST_HALF_WORK 2
#define SECOND_HALF_WORK 3
#define HEADER_WORK 4
#else
#define FIRST_HALF_WORK 1
#define SECOND_HALF_WORK 2
#define HEADER_WORK 3
#define DONE_WORK 4
#endif
#define BEGIN_WORK 0
#define WORKS 5

// The slot. Zero is the number of no message.
byte begin[BUFFERS];
byte first_half[BUFFERS];
byte second_half[BUFFERS];
byte header[BUFFERS];
byte done[BUFFERS];

// What the bytes of each message say, and which buffer they go to.
byte buffer_of[MESSAGES + 1];
byte raw_of[MESSAGES + 1];       // the tensor, without the scale
byte base_of[MESSAGES + 1];
byte previous_of[MESSAGES + 1];  // the final message of the base before, 0 if a put began the base
byte puts_of[MESSAGES + 1];
// Not in the message: the newest put up to this message, 0 if there was none.
byte put_of[MESSAGES + 1];

// The rails of the writer. A failed rail may still carry out the rest of a message until its fence.
bool failed[RAILS];
byte late_message[RAILS];
byte late_work[RAILS];
byte failures;

bool writer_done;
byte reader_base;  // the base that the reader has visited
byte acked;        // the largest base that the reader has acknowledged

hidden byte top;
hidden byte which;
hidden byte count;
hidden short value;
hidden short wanted;

#define SCALE(message) (put_of[message] == message -> (1 << (message)) : 1)
#define CONTENT(message) (SCALE(message) * raw_of[message])
// The amounts of messages from `first` to `final`.
#define AMOUNTS(first, final) ((1 << ((final) + 1)) - (1 << (first)))

// Leaves the buffer with the largest `done` in `top`.
inline find_newest() {
  top = 0;
  which = 0;
  do
  :: which < BUFFERS && done[which] > done[top] -> top = which; which++
  :: which < BUFFERS && done[which] <= done[top] -> which++
  :: which == BUFFERS -> break
  od;
  which = 0
}

// Whatever the writer does next, or if it dies now: a reader that looks now can read the slot.
inline check_readable() {
  find_newest();
  if
  :: done[top] != 0 ->
    assert(begin[top] == done[top]);
    if
    :: base_of[done[top]] != reader_base && previous_of[done[top]] != 0 ->
      count = previous_of[done[top]];
      assert(begin[buffer_of[count]] == count);
      assert(done[buffer_of[count]] == count)
    :: else
    fi
  :: else
  fi;
  top = 0; count = 0
}

// Carries out one work of a message.
inline carry_out(message, work) {
  if
  :: work == BEGIN_WORK -> begin[buffer_of[message]] = message
  :: work == FIRST_HALF_WORK -> first_half[buffer_of[message]] = message
  :: work == SECOND_HALF_WORK -> second_half[buffer_of[message]] = message
  :: work == HEADER_WORK -> header[buffer_of[message]] = message
  :: work == DONE_WORK -> done[buffer_of[message]] = message
  fi;
  check_readable()
}

#ifdef BROKEN_SUSPECT
#define SUSPECT(buffer) false
#else
#define SUSPECT(buffer) \
  ((failed[0] && buffer_of[late_message[0]] == buffer) || \
   (failed[1] && buffer_of[late_message[1]] == buffer))
#endif
#define FREE(buffer) (buffer != last && buffer != pinned && !SUSPECT(buffer))

active proctype writer() {
  byte n;              // the number of the last message
  byte base;           // the message with which the present base began
  byte last = NONE;    // the buffer of the last message
  byte pinned = NONE;  // the buffer of the final message of the base before
  byte previous;       // that message
  byte sum;            // the sum of accumulations since the base began
  bool sum_known = true;
  byte puts;
  bool is_put;
  byte buffer;
  byte rail;
  byte work;

  do
  :: n == MESSAGES -> break
  :: atomic {
      n < MESSAGES ->
      if
      :: is_put = true
      :: is_put = false
      fi;
      if
      :: is_put ->
        base = n + 1;
        previous = 0;
        sum = 1;
        sum_known = false;
#ifndef BROKEN_PUTS
        puts++;
#endif
#ifdef BROKEN_UNPIN
        pinned = NONE
#endif
      // An acknowledgement may be lost, late, or overwritten by an older one that is late. So the
      // writer may not see it, or no longer see it, at any time.
#ifdef BROKEN_CONTINUE
      :: !is_put && n > 0 ->
#else
      :: !is_put && n > 0 && acked >= base ->
#endif
        pinned = last;
        previous = n;
        base = n + 1;
        sum = 1 << (n + 1);
        sum_known = true
      :: !is_put && sum_known -> sum = sum + (1 << (n + 1))
      :: !is_put && !sum_known ->
        // Reads the data back from the peer's memory.
        assert(first_half[last] == n && second_half[last] == n && header[last] == n);
#ifdef BROKEN_READ_BACK
        sum = 1 << (n + 1);
#else
        sum = CONTENT(n) + (1 << (n + 1));
#endif
        sum_known = true
      fi;
      // One failed rail does not make the writer wait for its fence.
      assert(FREE(0) || FREE(1) || FREE(2) || FREE((BUFFERS - 1)) || (failed[0] && failed[1]));
      if
      // Buffers that were never used are alike.
      :: FREE(0) -> buffer = 0
      :: FREE(1) && begin[0] != 0 -> buffer = 1
      :: FREE(2) && begin[1] != 0 -> buffer = 2
#if BUFFERS > 3
      :: FREE(3) && begin[2] != 0 -> buffer = 3
#endif
      fi;
      n++;
      buffer_of[n] = buffer;
      raw_of[n] = sum;
      base_of[n] = base;
      previous_of[n] = previous;
      puts_of[n] = puts;
      put_of[n] = (is_put -> n : put_of[n - 1]);
#ifdef BROKEN_PUTS
      puts = (is_put -> puts + 1 : puts)
#endif
    };
post:
    atomic {
      if
      :: !failed[0] -> rail = 0
      :: failed[0] && !failed[1] -> rail = 1
      fi;
      work = 0
    };
    do
    :: d_step { work < WORKS -> carry_out(n, work); work++ }
    :: atomic {
        work == WORKS ->
        last = buffer;
        pinned = (is_put -> NONE : pinned);
        rail = 0;
        work = 0;
        buffer = 0;
        is_put = false;
        break
      }
    :: atomic {
        failures < FAILURES ->
        failures++;
        failed[rail] = true;
        late_message[rail] = n;
        late_work[rail] = work;
        rail = 0;
        work = 0;
        goto post
      }
    od
  od;
  writer_done = true
}

// What failed rails still carry out, and their fences.
active proctype network() {
end:
  do
  :: d_step {
      failed[0] && late_work[0] < WORKS -> carry_out(late_message[0], late_work[0]); late_work[0]++
    }
  :: d_step {
      failed[1] && late_work[1] < WORKS -> carry_out(late_message[1], late_work[1]); late_work[1]++
    }
#ifdef BROKEN_LATE_ORDER
  // A work that failed is never carried out, but those behind it are.
  :: d_step { failed[0] && late_work[0] < WORKS -> late_work[0]++ }
#endif
  :: d_step { failed[0] -> failed[0] = false; late_message[0] = 0; late_work[0] = 0 }
  :: d_step { failed[1] -> failed[1] = false; late_message[1] = 0; late_work[1] = 0 }
  od
}

inline copy(buffer) {
  copied_header = header[buffer];
  copied_first = first_half[buffer];
  copied_second = second_half[buffer]
}

// What was copied is `message`, or the reader begins again.
inline validate(buffer, message) {
  if
#ifndef BROKEN_CHECK
  :: begin[buffer] != message -> goto again
#endif
  :: else -> skip
  fi;
  // No torn read is ever accepted.
  assert(copied_header == message && copied_first == message && copied_second == message);
  copied_header = 0; copied_first = 0; copied_second = 0
}

active proctype reader() {
  byte visits;
  short carry = 1;    // the first content of the slot
  byte taken;         // the message in this base whose content was taken already, 0: none
  byte since;         // the newest message when the owner last took or replaced the value
  bool own = true;    // the owner's own amount, 1, is in the slot unless a put replaces it
  byte taken_amounts; // the amounts that the owner has taken so far
  byte newest;
  byte buffer;
  byte before;
  byte copied_header;
  byte copied_first;
  byte copied_second;
  bool final;

  do
  :: visits > VISITS -> break
  :: visits <= VISITS ->
    // The last visit sees all messages.
    if
    :: visits < VISITS
    :: visits == VISITS && writer_done -> final = true
    fi;
again:
    // Words are read one after the other, but all at once here: the message that is found was the
    // newest at some moment in between.
    atomic {
      copied_header = 0; copied_first = 0; copied_second = 0; before = 0;
      d_step {
        find_newest();
        newest = done[top];
        buffer = top;
        top = 0
      };
      if
      :: newest == 0 -> goto commit
      :: else
      fi
    };
    copy(buffer);
    atomic {
      validate(buffer, newest);
#ifdef BROKEN_ACK
      acked = base_of[newest];
#endif
      if
      :: base_of[newest] == reader_base || previous_of[newest] == 0 -> goto commit
      :: else -> before = previous_of[newest]; buffer = buffer_of[before]
      fi
    };
    if
    :: done[buffer] != before -> goto again
    :: else
    fi;
    copy(buffer);
    atomic {
      validate(buffer, before);
commit:
      skip;
      d_step {
        // Commits the visit.
        if
        :: base_of[newest] == reader_base
        :: base_of[newest] != reader_base && before == 0 ->
#ifndef BROKEN_REPLACE
          carry = 0;
#endif
          taken = 0
        :: base_of[newest] != reader_base && before != 0 ->
          // The writer begins a base after a base that the reader has visited.
          assert(base_of[before] == reader_base);
          assert(taken <= before);
#ifdef BROKEN_TAKEN
          carry = carry + CONTENT(before);
#else
          carry = carry + CONTENT(before) - CONTENT(taken);
#endif
          taken = 0
        fi;
        assert(newest >= since);
        assert(base_of[newest] >= reader_base);
        reader_base = base_of[newest];
        acked = reader_base;
        value = carry + CONTENT(newest) - CONTENT(taken);

        // Mass is conserved, and a put replaces: the value consists of the amounts since the last
        // put, or since the owner last took or replaced the value, whichever was later.
        wanted = (put_of[newest] > since
                  -> AMOUNTS(put_of[newest], newest) : AMOUNTS(since + 1, newest) + own);
        assert(value == wanted);
        // Puts are counted once.
        count = 0;
        which = 1;
        do
        :: which <= newest -> count = count + (put_of[which] == which -> 1 : 0); which++
        :: which > newest -> break
        od;
        assert(newest == 0 || puts_of[newest] == count);
        assert(!final || newest == MESSAGES);
        count = 0; which = 0; wanted = 0
      };
      if
      // The owner only reads the value,
      :: skip
      // takes it,
      :: d_step {
          // Nothing is taken twice, but for the owner's own amount.
          assert(((value & ~1) & taken_amounts) == 0);
          taken_amounts = taken_amounts | (value & ~1);
          carry = 0; taken = newest; since = newest; own = false
        }
      // or replaces it.
      :: d_step { carry = 1; taken = newest; since = newest; own = true }
      fi;
      value = 0; newest = 0; before = 0; buffer = 0; final = false;
      visits++
    }
  od
}
