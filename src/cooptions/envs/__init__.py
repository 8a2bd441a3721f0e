"""Every environment behind one interface, reachable by a scenario name: `cooptions.envs.scenarios.make_env`."""
