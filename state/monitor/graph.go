package monitor

import (
	"errors"
	"fmt"
	"strings"
)

// validateAll checks each configuration, the names and the dependencies.
func validateAll(cfgs []Config) error {
	var errs []error
	byName := make(map[string]Config, len(cfgs))
	for _, c := range cfgs {
		if _, err := c.Validate(); err != nil {
			errs = append(errs, err)
		}
		if _, twice := byName[c.Name]; twice {
			errs = append(errs, fmt.Errorf("resource %q is configured twice", c.Name))
		}
		byName[c.Name] = c
	}
	for _, c := range cfgs {
		for _, p := range c.DependsOn {
			if _, ok := byName[p]; !ok {
				errs = append(errs, fmt.Errorf("resource %q depends on %q, which is not configured", c.Name, p))
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return FindCycle(cfgs)
}

// FindCycle walks up from each resource and reports the first way that leads
// back to where it came from: none of those on it would ever be restarted.
func FindCycle(cfgs []Config) error {
	byName := make(map[string]Config, len(cfgs))
	for _, c := range cfgs {
		byName[c.Name] = c
	}
	clear := map[string]bool{}
	var path []string
	var walk func(name string) error
	walk = func(name string) error {
		for i, seen := range path {
			if seen == name {
				return fmt.Errorf("dependencies form a circle: %s", strings.Join(append(path[i:], name), " → "))
			}
		}
		if clear[name] {
			return nil
		}
		path = append(path, name)
		for _, p := range byName[name].DependsOn {
			if err := walk(p); err != nil {
				return err
			}
		}
		path = path[:len(path)-1]
		clear[name] = true
		return nil
	}
	for _, c := range cfgs {
		if err := walk(c.Name); err != nil {
			return err
		}
	}
	return nil
}
