package figure

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/sim"
	"github.com/bmcstate/bmcstate/cmd/bmcstate-sim/internal/trace"
	"github.com/bmcstate/bmcstate/state"
	"github.com/bmcstate/bmcstate/state/queue"
)

// lanes are the heights of the lower plot, from below.
var lanes = []string{"crash", "refused", "repeat", "reboot", "off", "on"}

// laneOf returns the lane of what an operation does.
func laneOf(op state.Operation) float64 {
	switch {
	case op == state.HostOff || op == state.ChassisOff:
		return 4
	case op == state.HostOn || op == state.ChassisOn:
		return 5
	default:
		return 3
	}
}

// span is one bar of the lower plot.
type span struct{ from, to, lane float64 }

// recording is what a run showed.
type recording struct {
	depth   plotter.XYs
	spans   map[bool][]span // by whether it ended in SUCCESS
	crashes []span
	marks   map[queue.Outcome]plotter.XYs
}

func (rec *recording) observer() sim.Observer {
	return sim.Observer{
		Depth: func(at float64, waiting int) {
			rec.depth = append(rec.depth, plotter.XY{X: at, Y: float64(waiting)})
		},
		Transition: func(from, to float64, op state.Operation, status state.Status) {
			ok := status == state.Success
			rec.spans[ok] = append(rec.spans[ok], span{from, to, laneOf(op)})
		},
		Answer: func(at float64, o queue.Outcome) {
			lane := 1.0
			if o == queue.Repeat {
				lane = 2
			}
			rec.marks[o] = append(rec.marks[o], plotter.XY{X: at, Y: lane})
		},
		Crash: func(from, to float64) { rec.crashes = append(rec.crashes, span{from, to, 0}) },
	}
}

// Timeline replays t and draws what happened between from and to, in u: the
// length of the queue above, transitions, repeats and refusals below.
func Timeline(t *trace.Trace, o sim.Options, from, to float64) (*Picture, error) {
	rec := &recording{spans: map[bool][]span{}, marks: map[queue.Outcome]plotter.XYs{}}
	result, err := sim.Watch(t, o, rec.observer())
	if err != nil {
		return nil, err
	}
	title := fmt.Sprintf("Policy %s. Whole trace: %d deliveries, S %.1f %%, E %.1f per 100, L %.1f u, B %.1f %%",
		o.Queue.Policy, result.Deliveries, result.S, result.E, result.L, result.B)
	depth, lower := newPlot(title), newPlot("")
	for _, p := range []*plot.Plot{depth, lower} {
		p.X.Min, p.X.Max = from, to
	}
	if err := rec.drawDepth(depth, from, to); err != nil {
		return nil, err
	}
	legend := plot.NewLegend()
	setLegend(&legend)
	legend.Top, legend.Left = true, true
	if err := rec.drawLanes(lower, &legend, from, to); err != nil {
		return nil, err
	}
	return &Picture{
		width: 28 * vg.Centimeter, height: 14 * vg.Centimeter, rows: [][]*plot.Plot{{depth}, {lower}}, legend: &legend,
	}, nil
}

func (rec *recording) drawDepth(p *plot.Plot, from, to float64) error {
	p.Y.Label.Text = "requests waiting"
	p.Add(plotter.NewGrid())
	line, err := plotter.NewLine(rec.depthBetween(from, to))
	if err != nil {
		return err
	}
	line.StepStyle = plotter.PostStep
	line.Color, line.Width = styles[state.FIFO].color, vg.Points(1.2)
	line.FillColor = color.RGBA{R: 0xcc, G: 0xe3, B: 0xf0, A: 0xff}
	p.Add(line)
	p.Y.Min = 0
	p.Y.Max = max(p.Y.Max, 1) * 1.05
	p.X.Min, p.X.Max = from, to
	p.Y.Tick.Marker = wholeTicks{}
	return nil
}

// depthBetween returns the steps between two times, with the depth at the first
// one and up to the last.
func (rec *recording) depthBetween(from, to float64) plotter.XYs {
	out := plotter.XYs{{X: from}}
	for _, d := range rec.depth {
		switch {
		case d.X <= from:
			out[0].Y = d.Y
		case d.X < to:
			out = append(out, d)
		}
	}
	return append(out, plotter.XY{X: to, Y: out[len(out)-1].Y})
}

var (
	successColor = color.RGBA{G: 0x9e, B: 0x73, A: 0xff}
	failureColor = color.RGBA{R: 0xd5, G: 0x5e, A: 0xff}
	crashColor   = color.RGBA{R: 0x66, G: 0x66, B: 0x66, A: 0xff}
)

func (rec *recording) drawLanes(p *plot.Plot, legend *plot.Legend, from, to float64) error {
	p.X.Label.Text = "time (u)"
	p.Y.Min, p.Y.Max = -0.6, float64(len(lanes))-0.4
	p.Y.Tick.Marker = laneTicks()
	p.Add(plotter.NewGrid())
	bars := []struct {
		name  string
		spans []span
		color color.Color
	}{
		{"transition: SUCCESS", rec.spans[true], successColor},
		{"transition: other end", rec.spans[false], failureColor},
		{"daemon dead", rec.crashes, crashColor},
	}
	for _, b := range bars {
		if spans := within(b.spans, from, to); len(spans) > 0 {
			drawn := &spanPlotter{spans: spans, color: b.color}
			p.Add(drawn)
			legend.Add(b.name, drawn)
		}
	}
	marks := []struct {
		outcome queue.Outcome
		glyph   draw.GlyphDrawer
		color   color.Color
	}{
		{queue.Repeat, draw.CircleGlyph{}, styles[state.FIFO].color},
		{queue.Busy, draw.CrossGlyph{}, failureColor},
		{queue.Full, draw.SquareGlyph{}, failureColor},
		{queue.Conflict, draw.TriangleGlyph{}, styles[state.Dedup].color},
	}
	for _, m := range marks {
		if err := addMarks(p, legend, m.outcome.String(), pointsWithin(rec.marks[m.outcome], from, to), m.glyph, m.color); err != nil {
			return err
		}
	}
	p.X.Min, p.X.Max = from, to
	return nil
}

func addMarks(p *plot.Plot, legend *plot.Legend, name string, at plotter.XYs, glyph draw.GlyphDrawer, c color.Color) error {
	if len(at) == 0 {
		return nil
	}
	s, err := plotter.NewScatter(at)
	if err != nil {
		return err
	}
	s.Shape, s.Color, s.Radius = glyph, c, vg.Points(3)
	p.Add(s)
	legend.Add(name, s)
	return nil
}

func within(spans []span, from, to float64) []span {
	var out []span
	for _, s := range spans {
		if s.to >= from && s.from <= to {
			out = append(out, span{max(s.from, from), min(s.to, to), s.lane})
		}
	}
	return out
}

func pointsWithin(pts plotter.XYs, from, to float64) plotter.XYs {
	var out plotter.XYs
	for _, p := range pts {
		if p.X >= from && p.X <= to {
			out = append(out, p)
		}
	}
	return out
}

func laneTicks() plot.ConstantTicks {
	var out plot.ConstantTicks
	for i, name := range lanes {
		out = append(out, plot.Tick{Value: float64(i), Label: name})
	}
	return out
}

// wholeTicks marks whole numbers only.
type wholeTicks struct{}

// Ticks implements plot.Ticker.
func (wholeTicks) Ticks(low, high float64) []plot.Tick {
	step := 1.0
	for _, s := range []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000} {
		if step = s; high/step <= 8 {
			break
		}
	}
	var out []plot.Tick
	for v := 0.0; v <= high; v += step {
		out = append(out, plot.Tick{Value: v, Label: fmt.Sprintf("%.0f", v)})
	}
	return out
}

// spanPlotter draws bars in lanes.
type spanPlotter struct {
	spans []span
	color color.Color
}

// barHeight is that of a bar, in lanes.
const barHeight = 0.5

// Plot implements plot.Plotter.
func (s *spanPlotter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	for _, b := range s.spans {
		low, high := y(b.lane-barHeight/2), y(b.lane+barHeight/2)
		left, right := x(b.from), x(b.to)
		right = max(right, left+vg.Points(0.5)) // what takes no time is seen, too
		c.FillPolygon(s.color, []vg.Point{{X: left, Y: low}, {X: right, Y: low}, {X: right, Y: high}, {X: left, Y: high}})
		c.StrokeLines(draw.LineStyle{Color: color.White, Width: vg.Points(0.4)}, []vg.Point{{X: right, Y: low}, {X: right, Y: high}})
	}
}

// Thumbnail implements plot.Thumbnailer.
func (s *spanPlotter) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.color, []vg.Point{
		{X: c.Min.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Min.Y}, {X: c.Max.X, Y: c.Max.Y}, {X: c.Min.X, Y: c.Max.Y},
	})
}
