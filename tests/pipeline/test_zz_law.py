import sys, tempfile, os
from pathlib import Path
import pytest
from datetime import timedelta
from hypothesis import given, settings, strategies as st, HealthCheck, Phase
from tests.pipeline.test_combine import *
LAT=[0,2,4,7]
@settings(max_examples=int(os.environ.get("N","100")), deadline=None, suppress_health_check=list(HealthCheck))
@given(script=scripts(), lateness=st.sampled_from(LAT), count=st.sampled_from([1,2,3]), data=st.data())
def test_law(tmp_path_factory, script, lateness, count, data):
    d=tmp_path_factory.mktemp("lane")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDEGATE_CACHE", str(d/"cache")); patch.setattr(combine,"_LIVE",{})
        most=data.draw(st.sampled_from([0,2,100])); patch.setattr(combine,"_MOST_PARTS",most)
        lane=Lane(d,lateness,count); engine=tg.Engine(lateness=timedelta(seconds=lateness))
        exp=[]
        for a in script:
            if a.what=="publish":
                t=as_table(a.operand)
                lane.log.append(t); exp+=engine.publish(t).to_pylist()
                w=data.draw(st.sampled_from(["","batch","batch","forget","lost","foreign","twice"]))
                if w: 
                    lane.batch()
                    if w=="forget": combine._LIVE.clear()
                    if w=="lost": shutil.rmtree(d/"cache"/"patterns"); combine._LIVE.clear()
                    if w=="foreign":
                        for f in (d/"cache"/"patterns").rglob("facts.json"): f.write_bytes(f.read_bytes().replace(b'"token":"',b'"token":"x'))
            elif a.what=="advance": continue
            else:
                getattr(engine,a.what)(a.operand); getattr(lane.registry,a.what)(a.operand)
        lane.batch()
        got=sorted((r for t in lane.told for r in t.to_pylist()),key=str)
        exp=sorted(exp,key=str)
        assert got==exp
