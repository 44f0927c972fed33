"""Five failures that users of durable execution report, as scenarios on holdfast, DBOS and LangGraph.

Each scenario is a script of its own (`dbos_stolen.py`, ...) that can be run alone in the product's environment;
`scene.py` is what they are made of, `outcomes.py` plays them and makes the table.
"""
