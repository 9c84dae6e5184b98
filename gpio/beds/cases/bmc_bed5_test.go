//go:build bed5

package cases

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bmcstate/bmcstate/gpio/beds/board"
	"github.com/bmcstate/bmcstate/gpio/beds/guestline"
	"github.com/bmcstate/bmcstate/gpio/beds/qmp"
)

// patience bounds every wait. The machine may have to share its processor: what
// is asserted is what happens, and in what order.
const patience = 90 * time.Second

// restartDelay is how long systemd waits before it starts a daemon that died: longer
// than the emulated machine takes to start a program while its host is busy.
const restartDelay = 30 * time.Second

// stretch is how many times as long as asked for a pulse may look to the board:
// on a busy host both the machine and the board get the processor late.
const stretch = 10

// bmcRequest is the BMC's own transition, which only this bed can survive.
var bmcRequest = property{state + ".BMC", root + "/bmc0", state + ".BMC", "RequestedBMCTransition", state + ".BMC.Transition."}

// machine is the emulated BMC, the board behind its lines, and the serial line
// over which it takes orders.
type machine struct {
	qmp    *qmp.Client
	board  *board.Player
	guest  *guestline.Line
	resets chan struct{}
}

// boot starts the machine and waits until it takes orders. Everything ends with
// the test.
func boot(t *testing.T) *machine {
	t.Helper()
	dir := os.Getenv("BED5_DIR")
	if dir == "" {
		t.Skip("BED5_DIR is not set: run this through bed5.sh")
	}
	ctx, cancel := context.WithCancel(context.Background())
	var background sync.WaitGroup
	t.Cleanup(background.Wait)
	t.Cleanup(cancel)

	m := &machine{resets: make(chan struct{}, 16)}
	console, err := os.Create(os.Getenv("BED5_LOG"))
	require.NoError(t, err)
	emulator := exec.CommandContext(ctx, "nice", "-n", "10", "qemu-system-arm", "-M", "ast2600-evb",
		"-accel", "tcg,thread=multi,tb-size=512", "-nodefaults", "-display", "none",
		"-kernel", os.Getenv("BED5_KERNEL"), "-initrd", dir+"/initrd", "-dtb", dir+"/bmc.dtb",
		"-append", "console=ttyS4,115200n8 rdinit=/lib/systemd/systemd quiet loglevel=4 panic=-1 systemd.show_status=0 "+
			"random.trust_bootloader=on cryptomgr.notests apparmor=0 selinux=0 audit=0",
		"-drive", "if=sd,index=2,format=raw,file="+dir+"/var.img",
		"-qmp", "unix:"+dir+"/qmp,server=on,wait=off",
		"-serial", "stdio", "-serial", "unix:"+dir+"/agent,server=on,wait=off")
	emulator.Stdout, emulator.Stderr = console, console
	emulator.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // of a run that is cut short
	require.NoError(t, emulator.Start())
	background.Go(func() {
		_ = emulator.Wait() // its end, ours or its own, shows on the sockets
		console.Close()
	})

	pins := boardPins()
	m.qmp, err = qmp.Dial(ctx, filepath.Join(dir, "qmp"), func(name string) {
		if name == "RESET" {
			pins.Reset()
			m.resets <- struct{}{}
		}
	})
	require.NoError(t, err)
	t.Cleanup(m.qmp.Close)
	serial, err := net.Dial("unix", filepath.Join(dir, "agent"))
	require.NoError(t, err)
	m.guest = guestline.NewLine(serial)
	t.Cleanup(m.guest.Close)

	pins.Client = m.qmp
	m.board = board.NewPlayer(board.New(board.Steady()), board.Stock(), pins, 2*time.Millisecond)
	require.NoError(t, m.board.Redrive())
	background.Go(func() { m.redrive(ctx, pins) })
	background.Go(func() { _ = m.board.Run(ctx) })
	m.awaitBoot(t)
	return m
}

// boardPins are the named lines of the BMC's controller: the first pins of the
// first banks. Every line that is asserted low is pulled high.
func boardPins() *qmp.Pins {
	pins := &qmp.Pins{Path: "/machine/soc/gpio", Names: map[string]string{}, Idle: map[string]bool{}}
	for i, name := range strings.Fields(os.Getenv("BED5_LINES")) {
		pins.Names[name] = fmt.Sprintf("gpio%c%d", 'A'+i/8, i%8)
		pins.Idle[name] = !board.Stock().High[name]
	}
	return pins
}

// redrive gives the controller its levels back after each reset.
func (m *machine) redrive(ctx context.Context, pins *qmp.Pins) {
	for {
		select {
		case <-m.resets:
			if m.board.Redrive() == nil { // an emulator that is gone fails the case soon enough
				pins.Driven()
			}
		case <-ctx.Done():
			return
		}
	}
}

func (m *machine) awaitBoot(t *testing.T) {
	t.Helper()
	began := time.Now()
	select {
	case <-m.guest.Boots():
		t.Logf("the BMC came up in %.1f s", time.Since(began).Seconds())
	case <-time.After(4 * time.Minute):
		t.Fatal("the BMC does not come up; see its console")
	}
}

// bmc shows the machine to the cases.
func (m *machine) bmc() *bmc { return &bmc{board: m.board, timing: board.Steady(), run: m.guest.Run} }

// TestBMC boots one machine and has it go through every case, one after the
// other: a boot costs more than all of them.
func TestBMC(t *testing.T) {
	m := boot(t)
	b := m.bmc()
	t.Run("Wires", func(t *testing.T) { wires(t, m) })
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			verdict(t)
			setup := s.setup()
			m.board.Do(func(x *board.Board) {
				x.Guest, x.Faults = board.GuestObeys, board.Faults{}
				x.LosePower()
				if setup.on {
					x.GainPower()
				}
			})
			b.start(t, setup)
			s.run(t, b)
		})
	}
	t.Run("BMCReboot", func(t *testing.T) { bmcReboot(t, m) })
}

// wires is the bed's own case: each end of the wires sees what the other does.
// Nothing reads POWER_OUT inside: that would make an input of it.
func wires(t *testing.T, m *machine) {
	verdict(t)
	b := m.bmc()
	const powerGood = "gpioget $(gpiofind PS_PWROK)"
	assert.Equal(t, "0", b.sh(t, powerGood))
	b.sh(t, "gpioset --mode=time --usec=300000 $(gpiofind POWER_OUT)=0 && gpioset $(gpiofind POWER_OUT)=1")
	assert.Len(t, b.awaitPulses(t, 0, "POWER_OUT", 1), 1)
	b.awaitLine(t, "POST_COMPLETE", true)
	assert.Equal(t, "1", b.sh(t, powerGood))
}

// bmcReboot reboots the BMC under a running host.
func bmcReboot(t *testing.T, m *machine) {
	verdict(t)
	b := m.bmc()
	m.board.Do((*board.Board).GainPower)
	b.start(t, on())
	b.sh(t, "touch /var/lib/kept; sync")
	old := b.sh(t, "cat /proc/sys/kernel/random/boot_id")
	mark := b.board.Mark()
	b.set(t, bmcRequest, "Reboot")
	m.awaitBoot(t)
	assert.NotEqual(t, old, b.sh(t, "cat /proc/sys/kernel/random/boot_id"))
	b.sh(t, "test -e /var/lib/kept")

	// The configuration is on the file system in memory; it comes back as the
	// image of a real BMC would have it, without forgetting what /var keeps.
	b.sh(t, installed(t, on())+"\nsystemctl start bmcstated")
	b.await(t, chassisState, "On")
	b.await(t, hostState, "Running")
	b.await(t, osState, "Standby")
	assert.Empty(t, b.board.Since(mark, "POWER_OUT"), "the reboot pressed a button")
	assert.Empty(t, b.board.Since(mark, "RESET_OUT"), "the reboot pressed a button")
	assert.Empty(t, b.board.Since(mark, "PS_PWROK"), "the host did not stay up")
}
