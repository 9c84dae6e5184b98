// Package history is the journal: what was accepted survives the loss of the
// process and of power, and nothing is driven before it is on disk.
//
// # Use
//
// [Open] reads the journal back and starts the one goroutine that writes it.
// [Log.Append] gives an [Entry] its sequence number and returns at once; the
// goroutine writes everything that has arrived meanwhile with one fsync and
// then reports a [Commit]. A Commit is the only source of a [Durable] token,
// and the code that acts on hardware must ask for one: "journal, then line" is
// a type, not a habit. Chassis Off alone may get a [NotDurable] instead, after
// a barrier has been written to the run directory.
//
// A request is one [KindAccepted] entry followed by entries that name its
// sequence. [Fold] turns entries into the final picture of each request. It is
// pure: a status that no entry says does not come out of it, and an ended
// request stays ended.
//
// # Files
//
// The state directory holds segments, journal-<first sequence>.log, and at most
// one snapshot, journal-<next sequence>.snap, which replaces every segment
// before it. A file is written by one process and never opened for appending
// again, so its header says once for all of its records which boot they belong
// to, and a record's checksum starts from its header's. Every record is
//
//	length u16 | ^length u16 | payload | CRC32C u32 | 0xA5
//
// in little endian. The payload is the kind, the sequence, the boot time, the
// wall time (for display only), and the kind's own fields, in variable-length
// integers. The last byte is never zero, so a tail that the file system filled
// with zeros is told apart from a record that was changed.
//
// A segment's header names the last durable sequence before it. What an older
// file holds beyond that number was answered with an error and is void; what it
// lacks is a gap. So a failed commit, whose sequences are gone, leaves no gap,
// and a lost file does.
//
// A file stands for 4096 sequence numbers from the one in its name. After an
// unclean end the next process starts behind that span: a number that was given
// out and never written is not given out again (but for those of a first process
// that lost power before anything was durable). A process that ends in order
// writes a last record that says so, and the next one goes on without a jump.
//
// # Marks
//
// The run directory (a tmpfs, gone with the boot) holds what must be remembered
// while the state directory does not answer: void (numbers of commits that hung
// too long), barrier-<domain> (a Chassis Off that was driven unrecorded) and
// sequence (the highest number given out when a commit failed).
package history
