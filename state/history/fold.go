package history

import (
	"fmt"
	"sort"
	"time"

	"github.com/bmcstate/bmcstate/state"
)

// Record is all that the journal knows of one request.
type Record struct {
	state.Request // as its newest entry left it
	Domain        int
	Verdict       state.Verdict // of the launch; counts where Launched is set

	Boot      string        // boot id of the acceptance, and of the launch where there was one
	EndedBoot string        // boot id that Ended belongs to; "" while unfinished
	Step      Step          // newest step; the zero Step where there was none
	StepAt    state.Instant // when Step was written
	Steps     int           // how many steps were written
	Last      uint64        // sequence of the newest entry that changed the record
}

// Boot is one boot of the BMC that the journal has seen.
type Boot struct {
	ID   string
	Last time.Duration // CLOCK_BOOTTIME of its newest entry
}

// DomainNote is a [Note] and the domain it belongs to.
type DomainNote struct {
	Domain int
	Note
}

// Picture is what a journal adds up to.
type Picture struct {
	Requests []Record // in order of acceptance, all domains
	Counters map[int]Counters
	Notes    []DomainNote // by domain and name
	Boots    []Boot       // oldest first
	Ignored  []string     // entries that changed nothing, each with the reason
}

// Note returns the newest value of a name, and whether there is one.
func (p *Picture) Note(domain int, name string) (string, bool) {
	for _, n := range p.Notes {
		if n.Domain == domain && n.Name == name {
			return n.Text, true
		}
	}
	return "", false
}

// Age returns for how much uptime a finished request has been so: the uptime
// that the journal has seen of earlier boots, and all of the present one. Idle
// time at the end of an earlier boot is not known and not counted, so a record
// is never kept too short. Unfinished requests have the age 0.
func (p *Picture) Age(r *Record, bootID string, now time.Duration) time.Duration {
	if !r.Status.Final() {
		return 0
	}
	if r.EndedBoot == bootID {
		return now - r.Ended.Boot
	}
	age, found := time.Duration(0), false
	for _, b := range p.Boots {
		switch {
		case b.ID == bootID:
		case b.ID == r.EndedBoot:
			age, found = b.Last-r.Ended.Boot, true
		case found:
			age += b.Last
		}
	}
	return age + now
}

// Fold returns what the entries, in their order, add up to. It is pure.
func Fold(entries []Entry) Picture {
	f := newFolder()
	for i := range entries {
		f.add(&entries[i])
	}
	return f.picture()
}

// maxIgnored bounds the list of ignored entries; a sound journal has none.
const maxIgnored = 64

type noteKey struct {
	domain int
	name   string
}

// folder is a fold in progress.
type folder struct {
	records  []Record
	index    map[uint64]int32 // acceptance sequence → place in records
	counters map[int]Counters
	notes    map[noteKey]string
	boots    []Boot
	ignored  []string
	text     sameText
}

func newFolder() *folder {
	return &folder{
		index: map[uint64]int32{}, counters: map[int]Counters{},
		notes: map[noteKey]string{}, text: sameText{},
	}
}

func (f *folder) picture() Picture {
	sort.Slice(f.records, func(i, j int) bool { return f.records[i].Seq < f.records[j].Seq })
	p := Picture{Requests: f.records, Counters: f.counters, Boots: f.boots, Ignored: f.ignored}
	for k, text := range f.notes {
		p.Notes = append(p.Notes, DomainNote{Domain: k.domain, Note: Note{Name: k.name, Text: text}})
	}
	sort.Slice(p.Notes, func(i, j int) bool {
		a, b := p.Notes[i], p.Notes[j]
		return a.Domain < b.Domain || a.Domain == b.Domain && a.Name < b.Name
	})
	return p
}

func (f *folder) ignore(e *Entry, why string) {
	if len(f.ignored) < maxIgnored {
		f.ignored = append(f.ignored, fmt.Sprintf("entry %d (%s of request %d): %s", e.Seq, e.Kind, e.Request, why))
	}
}

// seenBoot notes that something happened in a boot.
func seenBoot(boots []Boot, id string, at time.Duration) []Boot {
	for i := len(boots) - 1; i >= 0; i-- {
		if boots[i].ID == id {
			boots[i].Last = max(boots[i].Last, at)
			return boots
		}
	}
	return append(boots, Boot{ID: id, Last: at})
}

// put adds a whole record, from an acceptance or a snapshot.
func (f *folder) put(r Record) {
	r.Key.Client, r.Cause = f.text.of(r.Key.Client), f.text.of(r.Cause)
	r.Reason, r.Step.Name = f.text.of(r.Reason), f.text.of(r.Step.Name)
	r.Boot, r.EndedBoot = f.text.of(r.Boot), f.text.of(r.EndedBoot)
	f.index[r.Seq] = int32(len(f.records))
	f.records = append(f.records, r)
}

func (f *folder) add(e *Entry) {
	f.boots = seenBoot(f.boots, f.text.of(e.BootID), e.Boot)
	switch e.Kind {
	case KindAccepted:
		f.accept(e)
	case KindCounters:
		f.counters[e.Domain] = e.Counters
	case KindNote:
		f.notes[noteKey{e.Domain, e.Note.Name}] = e.Note.Text
	case KindClaim, KindStarted, KindStep, KindStatus:
		f.change(e)
	case kindClosed:
	default:
		f.ignore(e, "unknown kind")
	}
}

func (f *folder) accept(e *Entry) {
	r := Record{Request: e.Accepted, Domain: e.Domain, Boot: e.BootID, Last: e.Seq}
	r.Seq = e.Request
	if !r.Status.Valid() {
		r.Status = state.Pending
	}
	if r.Status.Final() {
		r.EndedBoot = e.BootID
	}
	if i, known := f.index[e.Request]; known {
		f.again(&f.records[i], &r, e)
		return
	}
	f.put(r)
}

// again takes the repeated record of a request that was driven unrecorded and
// whose first record got through after all.
func (f *folder) again(old, r *Record, e *Entry) {
	switch {
	case old.Status.Final():
		f.ignore(e, "the request had ended as "+old.Status.String())
	case old.Launched && !r.Launched && !r.Status.Final():
		f.ignore(e, "the request had been started")
	default:
		r.Boot, r.Verdict = old.Boot, old.Verdict
		r.Step, r.StepAt, r.Steps = old.Step, old.StepAt, old.Steps
		*old = *r
	}
}

func (f *folder) change(e *Entry) {
	i, known := f.index[e.Request]
	if !known {
		f.ignore(e, "no such request")
		return
	}
	r := &f.records[i]
	if r.Status.Final() {
		f.ignore(e, "the request had ended as "+r.Status.String())
		return
	}
	if why := f.apply(r, e); why != "" {
		f.ignore(e, why)
		return
	}
	r.Last = e.Seq
}

// apply changes an unfinished record; it returns why it did not.
func (f *folder) apply(r *Record, e *Entry) string {
	switch e.Kind {
	case KindClaim:
		return applyClaim(r, e.Claim)
	case KindStarted:
		if r.Launched {
			return "the request had been started"
		}
		r.Status, r.Launched, r.Started, r.Verdict = state.Running, true, e.At(), e.Verdict
	case KindStep:
		r.Step, r.StepAt = e.Step, e.At()
		r.Step.Name = f.text.of(r.Step.Name)
		r.Steps++
	case KindStatus:
		// A request that waits may be told what it superseded.
		if !e.Status.Valid() || e.Status == state.Pending && r.Status != state.Pending {
			return "no status that a request can change to"
		}
		r.Status, r.Reason = e.Status, f.text.of(e.Reason)
		r.Superseded = append(r.Superseded[:len(r.Superseded):len(r.Superseded)], e.Superseded...)
		if e.Status.Final() {
			r.Ended, r.EndedBoot = e.At(), f.text.of(e.BootID)
		}
	}
	return ""
}

func applyClaim(r *Record, c Claim) string {
	at := state.Index(r.Claims, c.UID)
	switch {
	case c.UID == r.Key.UID && r.OwnerLeft != c.Dropped:
		r.OwnerLeft = c.Dropped
	case c.UID == r.Key.UID:
		return "the owner's claim is known"
	case c.Dropped && at < 0:
		return "no such claim"
	case c.Dropped:
		r.Claims = append(r.Claims[:at:at], r.Claims[at+1:]...)
	case at >= 0:
		return "the claim is known"
	default:
		r.Claims = append(r.Claims[:len(r.Claims):len(r.Claims)], c.UID)
	}
	return ""
}
